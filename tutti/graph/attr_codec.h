// Attribute values as protobuf messages.
#pragma once

#include "tutti/core/attr_value.h"
#include "tutti/core/status.h"
#include "tutti/graph/tensor_codec.h"

namespace tensorflow {
class AttrValue;
class NameAttrList;
}  // namespace tensorflow

namespace tutti {

// kInvalidArgument for an unknown type, a bad shape, a bad tensor, or a list of more than one kind.
Result<AttrValue> decode_attr(const tensorflow::AttrValue& proto, ExpansionBudget& budget);
// Fields that we do not model stay as they are where the value is of the same kind.
void encode_attr(const AttrValue& value, tensorflow::AttrValue* proto);

Result<FunctionRef> decode_function_ref(const tensorflow::NameAttrList& proto, ExpansionBudget& budget);
void encode_function_ref(const FunctionRef& function, tensorflow::NameAttrList* proto);

}  // namespace tutti
