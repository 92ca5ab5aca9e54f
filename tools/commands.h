// The subcommands of the program `tutti`, one source each.
#pragma once

#include <CLI/CLI.hpp>

namespace tutti::tools {

// Adds a subcommand to `app`. When it was chosen it runs in its callback and throws ExitCode.
void add_certs_command(CLI::App& app);
void add_run_command(CLI::App& app);
void add_server_command(CLI::App& app);

// Ends the program after its command has run.
struct ExitCode {
  int code;
};

}  // namespace tutti::tools
