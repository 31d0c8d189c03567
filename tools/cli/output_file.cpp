#include "tools/cli/output_file.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace warpline::cli {
namespace {

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw Failure(exit_usage, path + ": cannot be written: " + why);
}
[[noreturn]] void refuse(const std::string& path, int error) {
  refuse(path, std::string(std::strerror(error)));
}

// "." for a name without a folder.
std::string folder_of(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

// Where symbolic links lead; the last one may lead to nothing. realpath() would want it to exist.
std::string followed(std::string path) {
  for (int links = 0; links < 40; ++links) {
    char target[4096];
    const ssize_t length = readlink(path.c_str(), target, sizeof target);
    if (length <= 0 || static_cast<size_t>(length) == sizeof target) break;
    const std::string text(target, static_cast<size_t>(length));
    path = text[0] == '/' ? text : folder_of(path) + "/" + text;
  }
  return path;
}

bool same_inode(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

bool may_write(const std::string& path, int mode = W_OK) {
  return faccessat(AT_FDCWD, path.c_str(), mode, AT_EACCESS) == 0;
}

struct Target {
  std::string path;                     // links followed
  bool exists = false, through = false; // through: opened as it is and written
  struct stat info = {};
};

// Throws what forbids writing.
Target examine(const std::string& path) {
  Target target{followed(path)};
  if (stat(path.c_str(), &target.info) != 0) {
    if (errno != ENOENT) refuse(path, errno);
    if (path.empty() || path.back() == '/') refuse(path, path.empty() ? ENOENT : EISDIR);
    const std::string folder = folder_of(target.path);
    struct stat info;
    if (stat(folder.c_str(), &info) != 0 || !may_write(folder, W_OK | X_OK)) refuse(path, errno);
    if (!S_ISDIR(info.st_mode)) refuse(path, ENOTDIR);
    return target;
  }
  target.exists = true;
  const mode_t mode = target.info.st_mode;
  if (S_ISDIR(mode)) refuse(path, "it is a directory");
  if (S_ISSOCK(mode)) refuse(path, "it is a socket");
  if (!may_write(path)) refuse(path, errno);
  struct stat info;
  // Links of /proc lead to files that may have no such name.
  const bool has_name = lstat(target.path.c_str(), &info) == 0 && same_inode(info, target.info);
  target.through = !S_ISREG(mode) || target.info.st_nlink != 1 || !has_name ||
                   !may_write(folder_of(target.path), W_OK | X_OK);
  return target;
}

// 0, or errno.
int put(int descriptor, const std::vector<std::string_view>& parts) {
  for (std::string_view part : parts)
    while (!part.empty()) {
      const ssize_t got = write(descriptor, part.data(), std::min<size_t>(part.size(), 1 << 30));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return errno;
      part.remove_prefix(static_cast<size_t>(got));
    }
  return 0;
}

// While it lives, writes beyond a limit or to a closed pipe fail instead of ending the program.
class QuietSignals {
public:
  QuietSignals() {
    for (size_t i = 0; i < 2; ++i) before_[i] = std::signal(numbers[i], SIG_IGN);
  }
  ~QuietSignals() {
    for (size_t i = 0; i < 2; ++i) std::signal(numbers[i], before_[i]);
  }

private:
  static constexpr int numbers[2] = {SIGXFSZ, SIGPIPE};
  void (*before_[2])(int);
};

int open_through(const std::string& path, const Target& target) {
  const int flags = O_WRONLY | O_CLOEXEC | O_NOCTTY;
  if (!S_ISFIFO(target.info.st_mode)) return open(path.c_str(), flags);
  const int descriptor = open(path.c_str(), flags | O_NONBLOCK);
  if (descriptor >= 0) {
    fcntl(descriptor, F_SETFL, 0);
    return descriptor;
  }
  if (errno != ENXIO) return -1;
  std::fprintf(stderr, "warpline: %s: waiting for somebody to read this pipe\n", path.c_str());
  return open(path.c_str(), flags);
}

void write_through(const std::string& path, const Target& target,
                   const std::vector<std::string_view>& parts) {
  const int descriptor = open_through(path, target);
  if (descriptor < 0) refuse(path, errno);
  size_t bytes = 0;
  for (const std::string_view part : parts) bytes += part.size();
  int error = 0;
  if (S_ISREG(target.info.st_mode)) {
    // A full disk is found before the old contents are gone, where the file system can tell.
    if (bytes > 0 &&
        fallocate(descriptor, FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(bytes)) != 0 &&
        (errno == ENOSPC || errno == EDQUOT || errno == EFBIG))
      error = errno;
    if (error == 0 && ftruncate(descriptor, 0) != 0) error = errno;
  }
  if (error == 0) error = put(descriptor, parts);
  if (close(descriptor) != 0 && error == 0) error = errno;
  if (error != 0) refuse(path, error);
}

// Mode and owner of the file whose place it takes, or the usual mode. False: they cannot be kept.
bool dress(int descriptor, const Target& target) {
  if (!target.exists) {
    const mode_t mask = umask(0);
    umask(mask);
    return fchmod(descriptor, 0666 & ~mask) == 0;
  }
  struct stat own;
  if (fstat(descriptor, &own) != 0) return false;
  const struct stat& old = target.info;
  if ((own.st_uid != old.st_uid || own.st_gid != old.st_gid) &&
      fchown(descriptor, old.st_uid, old.st_gid) != 0)
    return false;
  return fchmod(descriptor, old.st_mode & 07777) == 0;
}

std::string name_of(int descriptor) { return "/proc/self/fd/" + std::to_string(descriptor); }

bool give_name(int descriptor, const std::string& name) {
  return linkat(AT_FDCWD, name_of(descriptor).c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) ==
         0;
}

enum class Done { yes, no, otherwise }; // otherwise: this way is closed, take another

// A file without a name; errno is set where the answer is `no`.
Done write_unnamed(const Target& target, const std::vector<std::string_view>& parts) {
  const int descriptor =
      open(folder_of(target.path).c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
  if (descriptor < 0) return Done::otherwise;
  const auto end = [&](Done done, int error = 0) {
    close(descriptor);
    errno = error;
    return done;
  };
  if (access(name_of(descriptor).c_str(), F_OK) != 0) return end(Done::otherwise);
  if (const int error = put(descriptor, parts)) return end(Done::no, error);
  if (!dress(descriptor, target)) return end(Done::otherwise);
  if (!target.exists && give_name(descriptor, target.path)) return end(Done::yes);
  if (!target.exists && errno != EEXIST) return end(Done::otherwise);
  // Nothing gives an unnamed file a name that is taken, so it gets one beside and is moved at once.
  NamedTemporary beside(target.path);
  if (beside.descriptor() < 0) return end(Done::no, errno);
  unlink(beside.name().c_str());
  if (!give_name(descriptor, beside.name())) return end(Done::otherwise);
  if (rename(beside.name().c_str(), target.path.c_str()) != 0) return end(Done::no, errno);
  beside.keep();
  return end(Done::yes);
}

Done write_named(const Target& target, const std::vector<std::string_view>& parts) {
  NamedTemporary file(target.path);
  if (file.descriptor() < 0) return Done::no;
  if (const int error = put(file.descriptor(), parts)) {
    errno = error;
    return Done::no;
  }
  if (!dress(file.descriptor(), target)) return Done::otherwise;
  if (!file.close_file() || rename(file.name().c_str(), target.path.c_str()) != 0) return Done::no;
  file.keep();
  return Done::yes;
}

// ---- temporary files with a name
// -------------------------------------------------------------------

constexpr int ending_signals[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM};
// What the handler removes. Written before and cleared after the handlers are there, in one thread.
char removed_by_signal[4096];
struct sigaction actions_before[std::size(ending_signals)];

extern "C" void remove_and_end(int number) {
  unlink(removed_by_signal);
  std::signal(number, SIG_DFL);
  std::raise(number);
}

} // namespace

NamedTemporary::NamedTemporary(const std::string& beside) : name_(beside + ".XXXXXX") {
  sigset_t ending, before;
  sigemptyset(&ending);
  for (const int number : ending_signals) sigaddset(&ending, number);
  // A signal between the file's creation and the handlers would leave it.
  pthread_sigmask(SIG_BLOCK, &ending, &before);
  descriptor_ = name_.size() < sizeof removed_by_signal ? mkostemp(name_.data(), O_CLOEXEC) : -1;
  const int error = errno;
  made_ = descriptor_ >= 0;
  if (made_) {
    std::memcpy(removed_by_signal, name_.c_str(), name_.size() + 1);
    for (size_t i = 0; i < std::size(ending_signals); ++i) {
      struct sigaction action = {};
      action.sa_handler = remove_and_end;
      sigaction(ending_signals[i], nullptr, &actions_before[i]);
      if (actions_before[i].sa_handler == SIG_DFL) sigaction(ending_signals[i], &action, nullptr);
    }
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = error;
}

NamedTemporary::~NamedTemporary() {
  if (!made_) return;
  const int error = errno;
  close_file();
  if (!name_.empty()) unlink(name_.c_str());
  for (size_t i = 0; i < std::size(ending_signals); ++i)
    sigaction(ending_signals[i], &actions_before[i], nullptr);
  errno = error;
}

bool NamedTemporary::close_file() {
  const int descriptor = std::exchange(descriptor_, -1);
  return descriptor < 0 || close(descriptor) == 0;
}

void NamedTemporary::keep() { name_.clear(); }

// ---- the door
// ----------------------------------------------------------------------------------------

void check_writable(const std::string& path) { examine(path); }

void write_file(const std::string& path, const std::vector<std::string_view>& parts,
                Unfinished unfinished) {
  const QuietSignals quiet;
  const Target target = examine(path);
  if (target.through) return write_through(path, target, parts);
  Done done = Done::otherwise;
  if (unfinished == Unfinished::unnamed) done = write_unnamed(target, parts);
  if (done == Done::otherwise) done = write_named(target, parts);
  if (done == Done::no) refuse(path, errno);
  if (done == Done::otherwise) write_through(path, target, parts);
}

bool same_file(const std::string& a, const std::string& b) {
  struct stat of_a, of_b;
  const bool has_a = stat(a.c_str(), &of_a) == 0, has_b = stat(b.c_str(), &of_b) == 0;
  if (has_a != has_b) return false;
  if (has_a) return S_ISREG(of_a.st_mode) && same_inode(of_a, of_b);
  const std::string to_a = followed(a), to_b = followed(b);
  return to_a.substr(to_a.find_last_of('/') + 1) == to_b.substr(to_b.find_last_of('/') + 1) &&
         stat(folder_of(to_a).c_str(), &of_a) == 0 && stat(folder_of(to_b).c_str(), &of_b) == 0 &&
         same_inode(of_a, of_b);
}

void check_outputs(const std::string& command, const std::vector<NamedFile>& outputs,
                   const NamedFile& input) {
  std::vector<NamedFile> files;
  if (!input.path.empty()) files.push_back(input);
  for (const NamedFile& output : outputs) {
    if (output.path.empty() || output.path == "-") continue;
    for (const NamedFile& other : files)
      if (same_file(other.path, output.path))
        throw Failure(exit_usage, command + ": " + other.name + " and " + output.name +
                                      " are the same file, " + output.path +
                                      "; it would be overwritten");
    if (same_file("/dev/stdout", output.path))
      throw Failure(exit_usage, command + ": " + output.name + " is " + output.path +
                                    ", where standard output goes; the two would be mixed");
    check_writable(output.path);
    files.push_back(output);
  }
}

void check_folder_of(const std::string& prefix) {
  std::string folder = folder_of(prefix);
  struct stat info;
  while (stat(folder.c_str(), &info) != 0 && errno == ENOENT && folder != folder_of(folder))
    folder = folder_of(folder);
  if (stat(folder.c_str(), &info) != 0) refuse(prefix, errno);
  if (!S_ISDIR(info.st_mode)) refuse(prefix, folder + " is not a directory");
  if (!may_write(folder, W_OK | X_OK)) refuse(prefix, folder + ": " + std::strerror(errno));
}

void create_folder_of(const std::string& prefix) {
  const std::string folder = folder_of(prefix);
  if (may_write(folder, F_OK) || folder == folder_of(folder)) return;
  create_folder_of(folder);
  if (mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST) refuse(prefix, errno);
}

} // namespace warpline::cli
