// Variables that begin with values of a checkpoint: warm starts, transfer learning.
#pragma once

#include <map>
#include <string>

#include "tutti/core/file_system.h"
#include "tutti/graph/graph.h"

namespace tutti {

// Makes initialising a variable mean reading it from `path` (a prefix, or a directory with a file `checkpoint`).
// `assignment` has, from the checkpoint to the graph:
//   "name" to "variable"       one variable (or "variable/part_N": a part of it, or all parts of "variable")
//   "scope/" to "scope/"       all variables below the second that the checkpoint has below the first; "/": the root
// As in TensorFlow, the later entries in the order of the map win where two name one variable.
//
// Returns how many variables were changed. Call it after the variables are made and before a session runs. `fs` is read
// now, to check; values are read by the task of each variable when it is initialised. Throws Error and changes nothing:
// kInvalidArgument for a name that the graph lacks, another type or shape, or a scope that matches nothing; kNotFound
// for a name that the checkpoint lacks.
int init_from_checkpoint(Graph& graph, const std::string& path, const std::map<std::string, std::string>& assignment,
                         FileSystem& fs = local_file_system());

}  // namespace tutti
