// Files that the program writes. A new file, or one that takes the place of a regular file, is
// written without a name and gets its name when it is whole, so that a failure or a signal leaves
// what was there. What is no regular file is written through, symbolic links are followed, and a
// file that is replaced keeps its mode and owner; where that is impossible (other hard links,
// another's file, a folder that takes no files) the file is written in place. Failures throw
// Failure(exit_usage) with the path and the reason.
#pragma once

#include "tools/cli/failure.hpp"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace warpline::cli {

// Where the file system has no files without a name (or /proc is missing) the file has a temporary
// one beside `path`, which signals that end the program remove.
enum class Unfinished { unnamed, named };
void write_file(const std::string& path, const std::vector<std::string_view>& parts,
                Unfinished unfinished = Unfinished::unnamed);

// Refuses a path that write_file could not write, before long work is done for it. Creates nothing.
void check_writable(const std::string& path);

// The same file, by whatever names: symbolic links, hard links, or a name that is still to be
// created. What is no regular file, such as /dev/null, is nobody's.
bool same_file(const std::string& a, const std::string& b);

// Judges the files of a command before it works: each must be writable, and no regular file may be
// asked for twice, be the input, or be standard output. `name` is what the user called a file
// ("--output"); files without a path, and "-", are left out.
struct NamedFile {
  std::string name, path;
};
void check_outputs(const std::string& command, const std::vector<NamedFile>& outputs,
                   const NamedFile& input = {});

// For files PREFIX.more: the folder of the prefix, judged and then created where it is missing.
void check_folder_of(const std::string& prefix);
void create_folder_of(const std::string& prefix);

// A temporary file with a name, removed when this ends before `keep`, and by SIGHUP, SIGINT,
// SIGQUIT and SIGTERM. One at a time.
class NamedTemporary {
public:
  explicit NamedTemporary(const std::string& beside);
  ~NamedTemporary();
  NamedTemporary(const NamedTemporary&) = delete;
  NamedTemporary& operator=(const NamedTemporary&) = delete;
  int descriptor() const { return descriptor_; } // -1: errno says why
  const std::string& name() const { return name_; }
  bool close_file(); // some file systems report here what they could not write
  void keep();       // it has another name now

private:
  std::string name_;
  int descriptor_;
  bool made_;
};

} // namespace warpline::cli
