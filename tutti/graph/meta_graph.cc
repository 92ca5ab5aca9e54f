#include "tutti/graph/meta_graph.h"

#include "proto/meta_graph.pb.h"
#include "proto/saver.pb.h"
#include "proto/variable.pb.h"
#include "tutti/graph/graph_def.h"
#include "tutti/graph/internal/proto_util.h"

namespace tutti {
namespace {

// A collection that TensorFlow fills with savers; import_meta_graph finds its Saver in the field of its own.
constexpr char kSavers[] = "savers";

std::string encode(const SaverDef& saver) {
  tensorflow::SaverDef proto;
  proto.set_filename_tensor_name(saver.filename_tensor);
  proto.set_save_tensor_name(saver.save_tensor);
  proto.set_restore_op_name(saver.restore_op);
  proto.set_max_to_keep(saver.max_to_keep);
  proto.set_sharded(saver.sharded);
  proto.set_keep_checkpoint_every_n_hours(static_cast<float>(saver.keep_checkpoint_every_n_hours));
  proto.set_version(tensorflow::SaverDef::V2);
  return serialize(proto);
}

Result<SaverDef> decode_saver(std::string_view bytes) {
  tensorflow::SaverDef proto;
  TUTTI_RETURN_IF_ERROR(parse_message(bytes, "SaverDef", &proto));
  return SaverDef{.filename_tensor = proto.filename_tensor_name(),
                  .save_tensor = proto.save_tensor_name(),
                  .restore_op = proto.restore_op_name(),
                  .max_to_keep = proto.max_to_keep(),
                  .sharded = proto.sharded(),
                  .keep_checkpoint_every_n_hours = proto.keep_checkpoint_every_n_hours()};
}

std::string encode(const VariableDef& variable) {
  tensorflow::VariableDef proto;
  proto.set_variable_name(variable.variable);
  proto.set_initializer_name(variable.initializer);
  proto.set_snapshot_name(variable.snapshot);
  proto.set_initial_value_name(variable.initial_value);
  proto.set_is_resource(variable.resource);
  proto.set_trainable(variable.trainable);
  if (!variable.full_name.empty()) {
    tensorflow::SaveSliceInfoDef* slice = proto.mutable_save_slice_info_def();
    slice->set_full_name(variable.full_name);
    slice->mutable_full_shape()->Add(variable.full_shape.begin(), variable.full_shape.end());
    slice->mutable_var_offset()->Add(variable.offset.begin(), variable.offset.end());
    slice->mutable_var_shape()->Add(variable.shape.begin(), variable.shape.end());
  }
  return serialize(proto);
}

Result<VariableDef> decode_variable(std::string_view bytes) {
  tensorflow::VariableDef proto;
  TUTTI_RETURN_IF_ERROR(parse_message(bytes, "VariableDef", &proto));
  const tensorflow::SaveSliceInfoDef& slice = proto.save_slice_info_def();
  return VariableDef{.variable = proto.variable_name(),
                     .initializer = proto.initializer_name(),
                     .snapshot = proto.snapshot_name(),
                     .initial_value = proto.initial_value_name(),
                     .resource = proto.is_resource(),
                     .trainable = proto.trainable(),
                     .full_name = slice.full_name(),
                     .full_shape = {slice.full_shape().begin(), slice.full_shape().end()},
                     .offset = {slice.var_offset().begin(), slice.var_offset().end()},
                     .shape = {slice.var_shape().begin(), slice.var_shape().end()}};
}

// Whose fields are written: readers ask before they believe what older versions left out, such as `trainable`.
constexpr char kTensorFlowVersion[] = "2.15.0";

// TensorFlow's names of collections that hold variables.
bool holds_variables(std::string_view collection) {
  return collection.ends_with("variables") || collection == "global_step";
}

}  // namespace

std::string export_meta_graph(const Graph& graph, const MetaGraph& about) {
  tensorflow::MetaGraphDef proto;
  proto.mutable_meta_info_def()->set_tensorflow_version(kTensorFlowVersion);
  proto.set_graph_def(export_graph_def(graph));
  if (!about.saver.empty()) {
    proto.set_saver_def(encode(about.saver));
    (*proto.mutable_collection_def())[kSavers].mutable_bytes_list()->add_value(encode(about.saver));
  }
  for (const auto& [name, variables] : about.variables) {
    auto* list = (*proto.mutable_collection_def())[name].mutable_bytes_list();
    for (const VariableDef& variable : variables) list->add_value(encode(variable));
  }
  for (const auto& [name, nodes] : about.nodes) {
    auto* list = (*proto.mutable_collection_def())[name].mutable_node_list();
    for (const std::string& node : nodes) list->add_value(node);
  }
  return serialize(proto);
}

Result<MetaGraph> import_meta_graph(std::string_view bytes, Graph& graph) {
  tensorflow::MetaGraphDef proto;
  TUTTI_RETURN_IF_ERROR(parse_message(bytes, "MetaGraphDef", &proto));
  MetaGraph about;
  if (!proto.saver_def().empty()) {
    TUTTI_ASSIGN_OR_RETURN(about.saver, decode_saver(proto.saver_def()));
  }
  for (const auto& [name, collection] : proto.collection_def()) {
    for (const std::string& node : collection.node_list().value()) about.nodes[name].push_back(node);
    if (!holds_variables(name)) continue;
    for (const std::string& variable : collection.bytes_list().value()) {
      TUTTI_ASSIGN_OR_RETURN(VariableDef decoded, decode_variable(variable));
      about.variables[name].push_back(std::move(decoded));
    }
  }
  TUTTI_RETURN_IF_ERROR(import_graph_def(proto.graph_def(), graph));
  return about;
}

}  // namespace tutti
