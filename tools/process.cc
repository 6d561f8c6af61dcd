// See process.h.
#include "tools/process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "absl/strings/str_cat.h"

namespace rankscope::tools {
namespace {

bool g_pipe_was_ignored = false;  // what we inherited for SIGPIPE; written once, by main's thread

// Whoever gets one of these means the job. SIGTSTP and SIGCONT are left alone: they reach the whole group.
constexpr int kForwarded[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH};

sigset_t WaitedFor() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : kForwarded) sigaddset(&set, signal);
  sigaddset(&set, SIGCHLD);
  return set;
}

// In the child, between fork and exec. Only this thread exists, so the library's functions may be used.
[[noreturn]] void BecomeCommand(const std::vector<std::string>& argv, const std::vector<Variable>& variables,
                                const sigset_t& inherited_mask, int error_fd) {
  for (const Variable& variable : variables) setenv(variable.name.c_str(), variable.value.c_str(), 1);
  if (!g_pipe_was_ignored) signal(SIGPIPE, SIG_DFL);
  sigprocmask(SIG_SETMASK, &inherited_mask, nullptr);
  std::vector<char*> words;
  for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  execvp(words[0], words.data());
  const int error = errno;
  const ssize_t told = write(error_fd, &error, sizeof(error));
  _exit(told == sizeof(error) ? 127 : 126);
}

// The errno of a failed exec, 0 once the command runs (its end of the pipe is closed by the exec).
int StartError(int error_fd) {
  int error = 0;
  ssize_t got;
  do {
    got = read(error_fd, &error, sizeof(error));
  } while (got < 0 && errno == EINTR);
  return got == sizeof(error) ? error : 0;
}

// Until the command has ended. What the kernel itself sent (Ctrl-C, Ctrl-\, a closed terminal) has reached the
// command as well, as it is in the same group; what a process sent to us alone is passed on.
int WaitForEnd(pid_t child, const sigset_t& waited_for) {
  int status = 0;
  for (;;) {
    const pid_t ended = waitpid(child, &status, WNOHANG);
    if (ended == child) return status;
    if (ended < 0 && errno != EINTR) return 0;  // somebody had SIGCHLD ignored: the status is lost
    siginfo_t info{};
    // The time limit is for a SIGCHLD that was merged with another one.
    const timespec limit{1, 0};
    const int signal = sigtimedwait(&waited_for, &info, &limit);
    if (signal > 0 && signal != SIGCHLD && info.si_code <= 0) kill(child, signal);
  }
}

void DropPending(const sigset_t& set) {
  const timespec now{0, 0};
  while (sigtimedwait(&set, nullptr, &now) > 0) {
  }
}

}  // namespace

void IgnoreBrokenPipes() {
  struct sigaction inherited {};
  sigaction(SIGPIPE, nullptr, &inherited);
  g_pipe_was_ignored = inherited.sa_handler == SIG_IGN;
  signal(SIGPIPE, SIG_IGN);
}

absl::StatusOr<CommandEnd> RunCommand(const std::vector<std::string>& argv, const std::vector<Variable>& variables) {
  int error_pipe[2];
  if (pipe2(error_pipe, O_CLOEXEC) != 0) {
    return absl::InternalError(absl::StrCat("cannot make a pipe: ", std::strerror(errno)));
  }
  // A parent that ignores SIGCHLD would leave no status to wait for; the command inherits that again.
  struct sigaction inherited_child {};
  struct sigaction default_child {};
  default_child.sa_handler = SIG_DFL;
  sigaction(SIGCHLD, &default_child, &inherited_child);
  const sigset_t waited_for = WaitedFor();
  sigset_t inherited_mask;
  sigprocmask(SIG_BLOCK, &waited_for, &inherited_mask);

  const pid_t child = fork();
  if (child == 0) {
    sigaction(SIGCHLD, &inherited_child, nullptr);
    BecomeCommand(argv, variables, inherited_mask, error_pipe[1]);
  }
  const int fork_error = errno;
  close(error_pipe[1]);
  absl::StatusOr<CommandEnd> result = CommandEnd{};
  if (child < 0) {
    result = absl::InternalError(absl::StrCat("cannot start a process: ", std::strerror(fork_error)));
  } else {
    const int start_error = StartError(error_pipe[0]);
    const int status = WaitForEnd(child, waited_for);
    if (start_error != 0) {
      result->exit_status = start_error == ENOENT ? 127 : 126;
      result->start_error = absl::StrCat("cannot run ", argv[0], ": ", std::strerror(start_error));
    } else if (WIFSIGNALED(status)) {
      result->signal = WTERMSIG(status);
      result->exit_status = 128 + result->signal;
    } else {
      result->exit_status = WEXITSTATUS(status);
    }
  }
  close(error_pipe[0]);
  // A Ctrl-C that ended the job is not meant for what comes after it; the next one is.
  DropPending(waited_for);
  sigprocmask(SIG_SETMASK, &inherited_mask, nullptr);
  return result;
}

}  // namespace rankscope::tools
