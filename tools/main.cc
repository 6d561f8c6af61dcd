// The rankscope program: reads the command line and hands over to a subcommand (one file each, commands.h).
//
// CLI11 reports what it can't read by exceptions; they end here.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>
#include <vector>

#include "tools/commands.h"
#include "tools/diagnostics.h"
#include "tools/output.h"
#include "tools/process.h"

namespace rankscope::tools {
namespace {

constexpr char kFooter[] =
    "Exit status: 0 fine, 1 found what --check asks for, 2 bad usage, 3 input that can't be used; of `run`: the "
    "command's.\n"
    "Examples:\n"
    "  rankscope run -- torchrun --nproc-per-node 8 train.py    record, then merge and report\n"
    "  rankscope hang                                           what everybody waits for, while the job hangs\n"
    "  rankscope report job.rsc                                 the whole answer\n"
    "`rankscope VERB --help` has more.";

// Everything after the first "--" is a command that CLI11 must not read.
std::vector<std::string> SplitOff(int argc, char** argv, Invocation* invocation) {
  std::vector<std::string> ours;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (invocation->has_separator) {
      invocation->command.push_back(word);
    } else if (word == "--") {
      invocation->has_separator = true;
    } else {
      ours.push_back(word);
    }
  }
  return ours;
}

int PrintText(const std::string& text) {
  Output output;
  output.Write(text);
  return output.Finish("");
}

std::string VerbOf(const CLI::App& app) {
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  return chosen.empty() ? std::string() : chosen.front()->get_name();
}

int PrintUsageError(const std::string& verb, const std::vector<std::string>& words, const Invocation& invocation,
                    const CLI::App& app, const std::string& what) {
  if (words.empty()) {
    std::fputs(app.help().c_str(), stderr);
  } else if (verb == "run" && !invocation.has_separator) {
    PrintError(verb, what + "; put -- before the command", "rankscope run --help");
  } else if (verb.empty() && words[0].substr(0, 1) != "-") {
    PrintError(verb, "there is no subcommand '" + words[0] + "'", "rankscope --help");
  } else {
    PrintError(verb, what, "rankscope " + (verb.empty() ? "" : verb + " ") + "--help");
  }
  return kExitUsage;
}

int Main(int argc, char** argv) {
  Invocation invocation;
  std::vector<std::string> words = SplitOff(argc, argv, &invocation);
  CLI::App app("rankscope: a flight recorder for distributed GPU training", "rankscope");
  app.set_version_flag("--version", "rankscope " RANKSCOPE_VERSION);
  app.footer(kFooter);
  AddRun(app, &invocation);
  AddEnv(app, &invocation);
  AddDoctor(app, &invocation);
  AddLs(app, &invocation);
  AddDump(app, &invocation);
  AddMerge(app, &invocation);
  AddImport(app, &invocation);
  AddReport(app, &invocation);
  AddSkew(app, &invocation);
  AddPhases(app, &invocation);
  AddHang(app, &invocation);
  app.require_subcommand(1);

  // CLI11 takes the words from the back.
  std::vector<std::string> reversed(words.rbegin(), words.rend());
  try {
    app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    return PrintText(app.help());  // of the subcommand, where one was typed
  } catch (const CLI::CallForVersion& version) {
    return PrintText(std::string(version.what()) + "\n");
  } catch (const CLI::ParseError& error) {
    return PrintUsageError(VerbOf(app), words, invocation, app, error.what());
  }
  const std::string verb = VerbOf(app);
  if (invocation.has_separator && verb != "run") {
    PrintError(verb, "only `run` takes a command after --", "rankscope " + verb + " --help");
    return kExitUsage;
  }
  return invocation.action();
}

}  // namespace
}  // namespace rankscope::tools

int main(int argc, char** argv) {
  rankscope::tools::IgnoreBrokenPipes();
  return rankscope::tools::Main(argc, argv);
}
