// The program `tutti`.
//
//   exit status 0: done; 1: it failed; 2: what was asked for makes no sense
#include <malloc.h>

#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "commands.h"
#include "tutti/tutti.h"

namespace {

// Memory that was touched once is kept: mapping and unmapping it for every large tensor costs more than the work on it.
void keep_memory() {
  mallopt(M_MMAP_THRESHOLD, 32 << 20);  // the most that glibc takes
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_TOP_PAD, 1 << 20);
}

// "--ps_hosts=" says nothing, as scripts do when a list is empty; left in, it would take the next word for its value.
// The words of a program that `tutti run` starts are its own. Last first, as CLI11 wants them.
std::vector<std::string> arguments(int argc, char** argv) {
  const bool run = argc > 1 && std::string(argv[1]) == "run";
  std::vector<std::string> list;
  for (int i = argc - 1; i > 0; --i) {
    const std::string text = argv[i];
    if (run || !text.starts_with("--") || !text.ends_with("=")) list.push_back(text);
  }
  return list;
}

// One line, and where to read on.
int explain(const CLI::App& app, const CLI::ParseError& error) {
  std::string command = "tutti";
  for (const CLI::App* chosen : app.get_subcommands()) command += " " + chosen->get_name();
  std::fprintf(stderr, "%s: %s (see %s --help)\n", command.c_str(), error.what(), command.c_str());
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  keep_memory();
  CLI::App app("Training of deep-learning models on one machine or many.", "tutti");
  app.require_subcommand(1);
  tutti::tools::add_certs_command(app);
  tutti::tools::add_run_command(app);
  tutti::tools::add_server_command(app);
  try {
    app.parse(arguments(argc, argv));
    return 0;
  } catch (const tutti::tools::ExitCode& exit) {
    return exit.code;
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::CallForAllHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    return explain(app, error);
  } catch (const tutti::Error& error) {
    std::fprintf(stderr, "tutti: %s\n", error.what());
    return 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tutti: %s\n", error.what());
    return 1;
  }
}
