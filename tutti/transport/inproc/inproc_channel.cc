#include "tutti/transport/inproc/inproc_channel.h"
