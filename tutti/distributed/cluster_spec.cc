#include "tutti/distributed/cluster_spec.h"
