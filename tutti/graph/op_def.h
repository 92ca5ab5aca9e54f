// What an op is: its signature, its shape rule, its gradient and its properties, but not its kernels.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/core/attr_value.h"
#include "tutti/core/dtype.h"
#include "tutti/core/status.h"

namespace tutti {

class ShapeContext;
class GradContext;

// Checks input shapes and gives output shapes. An error says what is wrong with which values.
using ShapeFn = std::function<Status(ShapeContext&)>;
// Adds the gradient's nodes and sets the gradients of the inputs. Runs at the public edge: may throw Error.
using GradFn = std::function<void(GradContext&)>;

// Properties that passes, placement and execution ask for. They never list op names.
enum Trait : unsigned {
  kNoTraits = 0,
  kElementwise = 1u << 0,          // output element i depends on input elements i (after broadcasting) only
  kStateful = 1u << 1,             // has effects or hidden state: never folded, merged or dropped for being equal
  kCommutative = 1u << 2,          // binary, inputs may be swapped
  kAllowsUninitialised = 1u << 3,  // takes references to variables that have no value yet
  kExpensive = 1u << 4,            // worth a thread of its own
  kMetadataOnly = 1u << 5,         // reads shapes, not elements (Shape, Size, Rank)
  kControlFlow = 1u << 6,          // Switch, Merge, Enter, Exit, NextIteration, LoopCond: the frame executor's
  kPassThrough = 1u << 7,          // output 0 is input 0 (Identity and its kin)
  kFusable = 1u << 8,              // element-wise, one type, one output, and known to _FusedElementwise by name
  kTransfer = 1u << 9,             // sends or receives: runs even when dead, since the other end waits
  kIgnoresDeadControl = 1u << 10,  // runs although what comes before it is dead
};

struct ArgDef {
  std::string name;
  bool is_ref = false;
  // Exactly one way to a type: a fixed dtype, a type attribute, or a list-of-types attribute.
  DType dtype = DType::kInvalid;
  std::string type_attr;
  std::string type_list_attr;
  std::string number_attr;  // with dtype or type_attr: that many tensors
};

struct AttrDef {
  std::string name;
  std::string kind;  // "type", "list(shape)"...
  std::optional<AttrValue> default_value;
  std::optional<std::int64_t> minimum;       // of an int, or of a list's length
  DTypeSet allowed_types = DTypeSet::all();  // of "type" and "list(type)"
  std::vector<std::string> allowed_strings;  // of "string"; empty: any
};

struct OpDef {
  std::string name;
  std::vector<ArgDef> inputs;
  std::vector<ArgDef> outputs;
  std::vector<AttrDef> attrs;
  ShapeFn shape;             // empty: outputs of unknown shape
  GradFn grad;               // empty: not differentiable, asking for it is an error
  bool no_gradient = false;  // differentiable in name only: gradients stop here silently
  unsigned traits = kNoTraits;
  // Stands for an op that no registry has, of an imported graph. Nothing but its name and its edges is known, and no
  // step can run it.
  bool is_unknown = false;

  bool has(Trait trait) const { return (traits & trait) != 0; }
  const AttrDef* find_attr(std::string_view attr) const;
};

// Reads a signature and an attribute list, both in this notation:
//   signature  "a: T, b: T -> product: T"    "data: N * T, axis: Tidx -> output: T"
//              "ref: Ref(T), value: T -> output_ref: Ref(T)"    "args: Tin -> out: Tout"    "-> "
//   attrs      "T: type; N: int >= 1; Tidx: {int32, int64} = int32; transpose_a: bool = false;
//               shapes: list(shape) = []; Tin: list(type) >= 1; padding: {'SAME', 'VALID'}; shape: shape = unknown"
// An argument's type is a dtype name, or the name of an attribute of kind type or list(type).
// REQUIRES: correct notation; it is program text, so an error is reported as kInternal naming `name`.
Result<OpDef> parse_op_def(std::string_view name, std::string_view signature, std::string_view attrs);

// The ops that graphs may use. Filled once, then constant and shared.
class OpRegistry {
 public:
  // kAlreadyExists when the name is taken.
  Status add(OpDef op);
  // Null when there is none.
  const OpDef* find(std::string_view name) const;
  std::vector<const OpDef*> all() const;  // by name

 private:
  std::map<std::string, std::unique_ptr<OpDef>, std::less<>> ops_;
};

// A node's types, worked out from its op and attributes.
Status resolve_types(const OpDef& op, const AttrMap& attrs, std::vector<EdgeType>* inputs,
                     std::vector<EdgeType>* outputs);

// Checks `attrs` against the op, fills in defaults, and keeps unknown attributes that start with '_'.
// Other unknown attributes are dropped: newer clients send attributes that older signatures lack.
Status complete_attrs(const OpDef& op, AttrMap* attrs);

// Adds the type and number attributes that the types of the inputs imply and `attrs` leaves out.
Status infer_attrs(const OpDef& op, const std::vector<EdgeType>& inputs, AttrMap* attrs);

}  // namespace tutti
