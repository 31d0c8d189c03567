// Files that the program writes: what stands at the path stays what it is, and a write that is cut
// short leaves nothing.
#include "tests/support/catch.hpp"
#include "tests/support/temporary.hpp"
#include "tools/cli/output_file.hpp"

#include <csignal>
#include <fcntl.h>
#include <functional>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace warpline::cli;
using wltest::ContainsSubstring;
using wltest::read_text;
using wltest::TemporaryDirectory;
using wltest::write_text;
namespace fs = std::filesystem;

namespace {

constexpr Unfinished kWays[] = {Unfinished::unnamed, Unfinished::named};

struct stat info_of(const std::string& path) {
  struct stat info = {};
  REQUIRE(lstat(path.c_str(), &info) == 0);
  return info;
}

std::string refusal(const std::function<void()>& act) {
  try {
    act();
  } catch (const Failure& failure) {
    CHECK(failure.status == exit_usage);
    return failure.what();
  }
  return "accepted";
}

// The exit status of a child process that runs `act`, 128 + the signal that ended it; 99: it threw.
int in_child(const std::function<void()>& act, const std::function<void(pid_t)>& meanwhile = {}) {
  const pid_t child = fork();
  if (child == 0) {
    const rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    for (const int number : {SIGHUP, SIGINT, SIGQUIT, SIGTERM}) std::signal(number, SIG_DFL);
    try {
      act();
    } catch (...) {
      _exit(99);
    }
    _exit(0);
  }
  if (meanwhile) meanwhile(child);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// Far more than is written before the signal comes.
std::vector<std::string_view> endless() {
  static const std::string part(1 << 24, 'x');
  return std::vector<std::string_view>(4096, part);
}

// Waits until the child has written into a file of the folder, with or without a name.
void await_bytes(pid_t child, const std::string& folder, const std::string& except) {
  for (;;) {
    for (const auto& entry : fs::directory_iterator(folder)) {
      std::error_code gone;
      if (entry.path() != except && fs::file_size(entry.path(), gone) > 0 && !gone) return;
    }
    for (int descriptor = 3; descriptor < 64; ++descriptor) {
      struct stat info;
      const std::string name =
          "/proc/" + std::to_string(child) + "/fd/" + std::to_string(descriptor);
      if (stat(name.c_str(), &info) == 0 && S_ISREG(info.st_mode) && info.st_nlink == 0 &&
          info.st_size > 0)
        return;
    }
    siginfo_t ended = {};
    waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOHANG | WNOWAIT);
    if (ended.si_pid != 0) return;
    usleep(500);
  }
}

} // namespace

TEST_CASE("a file is written whole, alone, with the usual mode", "[host][output]") {
  for (const Unfinished way : kWays) {
    const TemporaryDirectory directory;
    const std::string path = directory / "x";
    const mode_t before = umask(027);
    write_file(path, {"ab", "", "cd"}, way);
    umask(before);
    CHECK(read_text(path) == "abcd");
    CHECK((info_of(path).st_mode & 07777) == 0640);
    CHECK(directory.file_count() == 1);
  }
}

TEST_CASE("a file that is replaced keeps its mode and owner", "[host][output]") {
  for (const Unfinished way : kWays)
    for (const mode_t mode : {0600, 0644, 0755}) {
      const TemporaryDirectory directory;
      const std::string path = directory / "x";
      write_text(path, "a longer text that was there");
      REQUIRE(chmod(path.c_str(), mode) == 0);
      if (geteuid() == 0) REQUIRE(chown(path.c_str(), 65534, 65534) == 0);
      const struct stat before = info_of(path);
      write_file(path, {"new"}, way);
      CHECK(read_text(path) == "new");
      CHECK((info_of(path).st_mode & 07777) == mode);
      CHECK(info_of(path).st_uid == before.st_uid);
      CHECK(info_of(path).st_gid == before.st_gid);
      CHECK(directory.file_count() == 1);
    }
}

TEST_CASE("symbolic links lead to the file that is written", "[host][output]") {
  for (const Unfinished way : kWays) {
    const TemporaryDirectory directory, other;
    write_text(other / "target", "old");
    fs::create_symlink(other / "target", directory / "first");
    fs::create_symlink("first", directory / "second"); // relative, and over another link
    write_file(directory / "second", {"new"}, way);
    CHECK(read_text(other / "target") == "new");
    fs::create_symlink(other / "missing", directory / "dangling");
    write_file(directory / "dangling", {"made"}, way);
    CHECK(read_text(other / "missing") == "made");
    for (const char* link : {"first", "second", "dangling"})
      CHECK(fs::is_symlink(directory / link));
    CHECK(directory.file_count() == 3);
    CHECK(other.file_count() == 2);
    fs::create_symlink("loop", directory / "loop");
    CHECK_THAT(refusal([&] { write_file(directory / "loop", {"x"}, way); }),
               ContainsSubstring("symbolic links"));
  }
}

TEST_CASE("hard links stay one file", "[host][output]") {
  const TemporaryDirectory directory;
  write_text(directory / "a", "a longer text that was there");
  fs::create_hard_link(directory / "a", directory / "b");
  write_file(directory / "a", {"new"});
  CHECK(read_text(directory / "b") == "new");
  CHECK(info_of(directory / "a").st_ino == info_of(directory / "b").st_ino);
  CHECK(directory.file_count() == 2);
}

TEST_CASE("a device node is written through", "[host][output]") {
  if (geteuid() != 0) WL_SKIP("mknod needs root");
  const TemporaryDirectory directory;
  const std::string node = directory / "n";
  REQUIRE(mknod(node.c_str(), S_IFCHR | 0666, makedev(1, 3)) == 0);
  check_writable(node);
  write_file(node, {"lost"});
  CHECK(S_ISCHR(info_of(node).st_mode));
  CHECK(info_of(node).st_rdev == makedev(1, 3));
  CHECK(directory.file_count() == 1);
  const std::string full = directory / "full";
  REQUIRE(mknod(full.c_str(), S_IFCHR | 0666, makedev(1, 7)) == 0);
  CHECK_THAT(refusal([&] { write_file(full, {"too much"}); }), ContainsSubstring("No space left"));
  CHECK(S_ISCHR(info_of(full).st_mode));
}

TEST_CASE("any user may write to /dev/null and nobody to what is closed", "[host][output]") {
  const TemporaryDirectory directory;
  fs::permissions(directory.path(), fs::perms::owner_all);
  const auto of_nobody = [&](const std::function<void()>& act) {
    return in_child([&] {
      if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) _exit(98);
      act();
    });
  };
  CHECK(of_nobody([] {
          check_writable("/dev/null");
          write_file("/dev/null", {"lost"});
        }) == 0);
  if (geteuid() != 0) WL_SKIP("another user needs root");
  CHECK(of_nobody([&] { check_writable(directory / "x"); }) == 99);
  fs::permissions(directory.path(), fs::perms::all);
  write_text(directory / "closed", "kept");
  REQUIRE(chmod((directory / "closed").c_str(), 0444) == 0);
  CHECK(of_nobody([&] { check_writable(directory / "closed"); }) == 99);
  CHECK(of_nobody([&] { write_file(directory / "closed", {"x"}); }) == 99);
  CHECK(read_text(directory / "closed") == "kept");
  // Another's file that may be written stays another's, and so in a folder that takes no files.
  for (const fs::perms folder : {fs::perms::all, fs::perms(0755)}) {
    write_text(directory / "open", "a longer text that was there");
    REQUIRE(chmod((directory / "open").c_str(), 0666) == 0);
    fs::permissions(directory.path(), folder);
    const ino_t before = info_of(directory / "open").st_ino;
    CHECK(of_nobody([&] { write_file(directory / "open", {"new"}); }) == 0);
    CHECK(read_text(directory / "open") == "new");
    CHECK(info_of(directory / "open").st_uid == 0);
    CHECK(info_of(directory / "open").st_ino == before);
  }
  CHECK(directory.file_count() == 2);
}

TEST_CASE("a pipe with a name is written through", "[host][output]") {
  const TemporaryDirectory directory;
  const std::string pipe = directory / "p";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  check_writable(pipe); // does not wait for a reader
  std::string got;
  std::thread reader([&] { got = read_text(pipe); });
  write_file(pipe, {"through", " the pipe"});
  reader.join();
  CHECK(got == "through the pipe");
  CHECK(S_ISFIFO(info_of(pipe).st_mode));
  CHECK(directory.file_count() == 1);
  // A reader that goes away is an error and no signal.
  std::thread leaver([&] {
    const int end = open(pipe.c_str(), O_RDONLY);
    char byte;
    if (read(end, &byte, 1) < 0) byte = 0;
    close(end);
  });
  CHECK_THAT(refusal([&] { write_file(pipe, endless()); }), ContainsSubstring("Broken pipe"));
  leaver.join();
}

TEST_CASE("signals leave what was there and nothing else", "[host][output]") {
  for (const Unfinished way : kWays)
    for (const int number : {SIGKILL, SIGTERM, SIGINT, SIGHUP, SIGQUIT})
      for (const bool exists : {false, true}) {
        if (way == Unfinished::named && number == SIGKILL) continue; // nobody can catch it
        const TemporaryDirectory directory;
        const std::string path = directory / "x";
        if (exists) write_text(path, "old");
        const int status = in_child([&] { write_file(path, endless(), way); },
                                    [&](pid_t child) {
                                      await_bytes(child, directory.path(), path);
                                      kill(child, number);
                                    });
        INFO("signal " << number << ", named " << (way == Unfinished::named));
        CHECK(status == 128 + number);
        CHECK(directory.file_count() == (exists ? 1 : 0));
        if (exists) CHECK(read_text(path) == "old");
      }
}

TEST_CASE("a limit on the size of files is an error", "[host][output]") {
  for (const Unfinished way : kWays) {
    const TemporaryDirectory directory;
    const std::string path = directory / "x";
    write_text(path, "old");
    const int status = in_child([&] {
      const rlimit limit = {1 << 20, 1 << 20};
      setrlimit(RLIMIT_FSIZE, &limit);
      const std::string message = refusal([&] { write_file(path, endless(), way); });
      _exit(message == path + ": cannot be written: File too large" ? 7 : 8);
    });
    CHECK(status == 7);
    CHECK(read_text(path) == "old");
    CHECK(directory.file_count() == 1);
  }
}

TEST_CASE("a temporary file goes, or stays under its other name", "[host][output]") {
  const TemporaryDirectory directory;
  {
    const NamedTemporary file(directory / "x");
    CHECK(file.descriptor() >= 0);
    CHECK(directory.file_count() == 1);
  }
  CHECK(directory.file_count() == 0);
  {
    NamedTemporary file(directory / "x");
    fs::rename(file.name(), directory / "x");
    file.keep();
  }
  CHECK(fs::exists(directory / "x"));
  // Signals that the program ignores stay ignored.
  CHECK(in_child([&] {
          std::signal(SIGHUP, SIG_IGN);
          const NamedTemporary file(directory / "y");
          std::raise(SIGHUP);
          if (directory.file_count() != 2) _exit(5);
        }) == 0);
  CHECK(directory.file_count() == 1);
}

TEST_CASE("what cannot be written is refused beforehand, with the reason", "[host][output]") {
  const TemporaryDirectory directory;
  write_text(directory / "file", "kept");
  const struct {
    std::string path, reason;
  } cases[] = {{directory.path(), "it is a directory"},
               {directory / "no/such/x", "No such file or directory"},
               {directory / "file/x", "Not a directory"},
               {directory / "x/", "Is a directory"},
               {directory / std::string(300, 'n'), "File name too long"},
               {"", "No such file or directory"}};
  for (const auto& c : cases) {
    const std::string text = c.path + ": cannot be written: " + c.reason;
    CHECK(refusal([&] { check_writable(c.path); }) == text);
    CHECK(refusal([&] { write_file(c.path, {"x"}); }) == text);
  }
  CHECK(read_text(directory / "file") == "kept");
  check_writable(directory / "fine");
  CHECK(directory.file_count() == 1);
}

TEST_CASE("one file is not written twice, nor over the input", "[host][output]") {
  const TemporaryDirectory directory;
  write_text(directory / "in", "kept");
  fs::create_symlink("in", directory / "link");
  fs::create_hard_link(directory / "in", directory / "hard");
  fs::create_symlink("new", directory / "to_new");
  fs::create_symlink(".", directory / "here");
  const auto judged = [&](const std::string& output, const std::string& json) {
    return refusal([&] {
      check_outputs("test", {{"--output", output}, {"--json", json}},
                    {"--input", directory / "in"});
    });
  };
  for (const char* name : {"in", "link", "hard", "here/in"})
    CHECK(judged(directory / name, "") == "test: --input and --output are the same file, " +
                                              directory / name + "; it would be overwritten");
  CHECK_THAT(judged("", directory / "hard"), ContainsSubstring("--input and --json are the same"));
  for (const char* name : {"new", "to_new", "here/new", "here/here/to_new"})
    CHECK_THAT(judged(directory / "new", directory / name),
               ContainsSubstring("--output and --json are the same file"));
  CHECK(judged(directory / "new", directory / "other") == "accepted");
  CHECK(judged(directory / "new", "-") == "accepted");
  CHECK(judged("/dev/null", "/dev/null") == "accepted");
  CHECK(directory.file_count() == 5);
}

TEST_CASE("the file behind standard output is not another output's", "[host][output]") {
  const TemporaryDirectory directory;
  for (const std::string& path : {directory / "out", std::string("/dev/stdout")})
    CHECK(in_child([&] {
            const int out = open((directory / "out").c_str(), O_WRONLY | O_CREAT, 0600);
            dup2(out, STDOUT_FILENO);
            const std::string text = refusal([&] { check_outputs("test", {{"--json", path}}); });
            _exit(text.find("where standard output goes") != std::string::npos ? 7 : 8);
          }) == 7);
}

TEST_CASE("the folder of a prefix is created where it is missing", "[host][output]") {
  const TemporaryDirectory directory;
  const std::string prefix = directory / "a/b/t";
  check_folder_of(prefix);
  CHECK(directory.file_count() == 0);
  create_folder_of(prefix);
  CHECK(fs::is_directory(directory / "a/b"));
  create_folder_of(prefix);
  check_folder_of("t");
  write_text(directory / "file", "");
  CHECK_THAT(refusal([&] { check_folder_of(directory / "file/t"); }),
             ContainsSubstring("is not a directory"));
  CHECK_THAT(refusal([&] { check_folder_of(directory / "file/deeper/t"); }),
             ContainsSubstring("Not a directory"));
}
