// A recording of file calls: lines of text in the order in which the calls ended. docs/formats/file-calls.md describes them.
#pragma once

#include <cstdint>
#include <cstdio>
#include <mutex>
#include <string>
#include <unordered_map>

namespace shingle {

// The last part of a path.
std::string NameOf(const std::string& path);

// What a thread's time went to so far, in nanoseconds.
struct Usage {
  uint64_t running = 0;  // on a processor
  uint64_t queued = 0;   // ready to run, without a processor
};

class Recording;

// Appends of a thread to one file that follow each other at once: they are one line.
struct Run {
  bool open = false;
  uint32_t file = 0;
  uint64_t bytes = 0;
  uint64_t first = 0;  // end of the call before it
  uint64_t took = 0;
};

// A thread of the program.
class Caller {
 public:
  ~Caller();
  static Caller& here();

  uint32_t number = 0;
  uint64_t ended = 0;  // end of its last call
  Usage used;          // until then
  Usage between;       // since then, when the present call began
  Run run;
  Recording* recording = nullptr;

  Usage usage();

 private:
  int scheduler_ = -2;  // /proc/thread-self/schedstat
};

class Recording {
 public:
  // Writes to a new file. Null, with errno, if there can be none.
  static Recording* Open(const std::string& path);

  uint64_t now() const;

  // A call begins: returns its time.
  uint64_t Begin();
  // It has ended well. `rest` are the fields of its kind.
  void End(uint64_t began, char kind, uint32_t file, const std::string& rest = std::string());
  // The same of an append, which may be one of a run.
  uint64_t BeginAppend(uint32_t file);
  void EndAppend(uint64_t began, uint32_t file, uint64_t bytes);

  // The file that has a name; a new one, of `size` bytes, if the recording did not see it made.
  uint32_t Known(const std::string& path, uint64_t size);
  uint32_t Create(const std::string& path);
  void Rename(const std::string& from, const std::string& to);
  void Remove(const std::string& path);

 private:
  friend class Caller;
  explicit Recording(std::FILE* file);
  Recording(const Recording&) = delete;

  void CloseRun(Caller& caller);
  void Line(Caller& caller, char kind, uint32_t file, uint64_t began, uint64_t ended, uint64_t took, const Usage& between, const std::string& rest);
  Usage Between(Caller& caller);

  std::mutex mutex_;
  std::FILE* const out_;
  const uint64_t zero_;
  uint64_t last_us_ = 0;
  uint32_t threads_ = 0;
  uint32_t files_ = 0;
  std::unordered_map<std::string, uint32_t> names_;
};

}  // namespace shingle
