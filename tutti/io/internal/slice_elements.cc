#include "tutti/io/internal/slice_elements.h"

#include <complex>
#include <limits>

#include "proto/tensor.pb.h"

namespace tutti {

namespace {

using tensorflow::TensorProto;

// What a list of the message holds for elements of type T: `Wire` each, from and to the bits of T. Quantised types are
// read and written as the integers that they are made of.
template <typename T, typename List>
void put_numbers(const Tensor& tensor, List* list) {
  const T* data = static_cast<const T*>(tensor.raw());
  list->Reserve(static_cast<int>(tensor.num_elements()));
  for (std::int64_t i = 0; i < tensor.num_elements(); ++i) list->Add(data[i]);
}

template <typename T, typename List>
void take_numbers(const List& list, Tensor& tensor) {
  T* data = static_cast<T*>(tensor.raw());
  for (int i = 0; i < list.size(); ++i) data[i] = static_cast<T>(list.Get(i));
}

template <typename T, typename List>
void put_complex(const Tensor& tensor, List* list) {
  for (const std::complex<T>& value : tensor.flat<std::complex<T>>()) {
    list->Add(value.real());
    list->Add(value.imag());
  }
}

template <typename T, typename List>
void take_complex(const List& list, Tensor& tensor) {
  auto* data = tensor.data<std::complex<T>>();
  for (int i = 0; i + 1 < list.size(); i += 2) data[i / 2] = {list.Get(i), list.Get(i + 1)};
}

// How many elements of `dtype` the message holds; -1 for a type that is not known.
std::int64_t count_elements(const TensorProto& proto, DType dtype) {
  switch (dtype) {
    case DType::kFloat:
      return proto.float_val_size();
    case DType::kDouble:
      return proto.double_val_size();
    case DType::kInt32:
    case DType::kUint8:
    case DType::kInt16:
    case DType::kInt8:
    case DType::kUint16:
    case DType::kQint8:
    case DType::kQuint8:
    case DType::kQint32:
      return proto.int_val_size();
    case DType::kString:
      return proto.string_val_size();
    case DType::kComplex64:
      return proto.scomplex_val_size() % 2 == 0 ? proto.scomplex_val_size() / 2 : -1;
    case DType::kInt64:
      return proto.int64_val_size();
    case DType::kBool:
      return proto.bool_val_size();
    case DType::kComplex128:
      return proto.dcomplex_val_size() % 2 == 0 ? proto.dcomplex_val_size() / 2 : -1;
    case DType::kHalf:
      return proto.half_val_size();
    default:
      return -1;
  }
}

void take_elements(const TensorProto& proto, Tensor& tensor) {
  switch (tensor.dtype()) {
    case DType::kFloat:
      return take_numbers<float>(proto.float_val(), tensor);
    case DType::kDouble:
      return take_numbers<double>(proto.double_val(), tensor);
    case DType::kInt32:
    case DType::kQint32:
      return take_numbers<std::int32_t>(proto.int_val(), tensor);
    case DType::kInt16:
      return take_numbers<std::int16_t>(proto.int_val(), tensor);
    case DType::kUint16:
      return take_numbers<std::uint16_t>(proto.int_val(), tensor);
    case DType::kInt8:
    case DType::kQint8:
      return take_numbers<std::int8_t>(proto.int_val(), tensor);
    case DType::kUint8:
    case DType::kQuint8:
      return take_numbers<std::uint8_t>(proto.int_val(), tensor);
    case DType::kInt64:
      return take_numbers<std::int64_t>(proto.int64_val(), tensor);
    case DType::kBool:
      return take_numbers<bool>(proto.bool_val(), tensor);
    case DType::kHalf:
      return take_numbers<std::uint16_t>(proto.half_val(), tensor);
    case DType::kComplex64:
      return take_complex<float>(proto.scomplex_val(), tensor);
    case DType::kComplex128:
      return take_complex<double>(proto.dcomplex_val(), tensor);
    case DType::kString:
      for (int i = 0; i < proto.string_val_size(); ++i) tensor.data<std::string>()[i] = proto.string_val(i);
      return;
    default:
      return;  // count_elements refused it
  }
}

void put_elements(const Tensor& tensor, TensorProto* proto) {
  switch (tensor.dtype()) {
    case DType::kFloat:
      return put_numbers<float>(tensor, proto->mutable_float_val());
    case DType::kDouble:
      return put_numbers<double>(tensor, proto->mutable_double_val());
    case DType::kInt32:
    case DType::kQint32:
      return put_numbers<std::int32_t>(tensor, proto->mutable_int_val());
    case DType::kInt16:
      return put_numbers<std::int16_t>(tensor, proto->mutable_int_val());
    case DType::kUint16:
      return put_numbers<std::uint16_t>(tensor, proto->mutable_int_val());
    case DType::kInt8:
    case DType::kQint8:
      return put_numbers<std::int8_t>(tensor, proto->mutable_int_val());
    case DType::kUint8:
    case DType::kQuint8:
      return put_numbers<std::uint8_t>(tensor, proto->mutable_int_val());
    case DType::kInt64:
      return put_numbers<std::int64_t>(tensor, proto->mutable_int64_val());
    case DType::kBool:
      return put_numbers<bool>(tensor, proto->mutable_bool_val());
    case DType::kHalf:
      return put_numbers<std::uint16_t>(tensor, proto->mutable_half_val());
    case DType::kComplex64:
      return put_complex<float>(tensor, proto->mutable_scomplex_val());
    case DType::kComplex128:
      return put_complex<double>(tensor, proto->mutable_dcomplex_val());
    case DType::kString:
      for (const std::string& element : tensor.flat<std::string>()) proto->add_string_val(element);
      return;
    default:
      return;  // count_elements refused it
  }
}

// An upper bound of what the elements take in a message: a varint of a negative number has ten bytes.
std::uint64_t most_message_bytes(const Tensor& tensor) {
  constexpr std::uint64_t kMostPerElement = 16;
  std::uint64_t bytes = kMostPerElement * static_cast<std::uint64_t>(tensor.num_elements());
  if (tensor.dtype() == DType::kString) {
    for (const std::string& element : tensor.flat<std::string>()) bytes += element.size();
  }
  return bytes;
}

}  // namespace

Status encode_slice_elements(const Tensor& tensor, TensorProto* proto) {
  if (count_elements(*proto, tensor.dtype()) < 0) {
    return unimplemented("Saving data type ", dtype_name(tensor.dtype()), " not yet supported");
  }
  if (most_message_bytes(tensor) > static_cast<std::uint64_t>(std::numeric_limits<int>::max())) {
    return invalid_argument("a slice of ", tensor.num_elements(), " elements is too large for this format");
  }
  put_elements(tensor, proto);
  return {};
}

Result<Tensor> decode_slice_elements(const TensorProto& proto, DType dtype, const Shape& shape, Allocator& allocator) {
  const std::int64_t count = count_elements(proto, dtype);
  if (count != shape.num_elements()) {
    return data_loss("not the elements of ", dtype_name(dtype), " ", shape, " are stored");
  }
  TUTTI_ASSIGN_OR_RETURN(Tensor tensor, Tensor::create(dtype, shape, allocator));
  take_elements(proto, tensor);
  return tensor;
}

}  // namespace tutti
