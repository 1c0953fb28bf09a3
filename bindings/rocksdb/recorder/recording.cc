#include "recording.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdlib>

namespace shingle {

namespace {

// A run of appends ends at so many bytes, so much time, or a pause so long that the thread may have waited for something.
constexpr uint64_t kRunBytes = 1 << 20;
constexpr uint64_t kRunNanos = 200'000'000;
constexpr uint64_t kPauseNanos = 500'000;

uint64_t Clock(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
}

// The part of `whole` that `share` of `all` is.
uint64_t Part(uint64_t whole, uint64_t share, uint64_t all) {
  return all == 0 ? 0 : static_cast<uint64_t>(static_cast<double>(whole) * static_cast<double>(share) / static_cast<double>(all));
}

}  // namespace

std::string NameOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

Caller& Caller::here() {
  thread_local Caller caller;
  return caller;
}

Caller::~Caller() {
  if (recording != nullptr) {
    recording->CloseRun(*this);
  }
  if (scheduler_ >= 0) {
    close(scheduler_);
  }
}

Usage Caller::usage() {
  Usage usage;
  usage.running = Clock(CLOCK_THREAD_CPUTIME_ID);
  if (scheduler_ == -2) {
    scheduler_ = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
  }
  char text[96];
  const ssize_t length = scheduler_ < 0 ? -1 : pread(scheduler_, text, sizeof(text) - 1, 0);
  if (length > 0) {
    text[length] = '\0';
    unsigned long long running = 0;
    unsigned long long queued = 0;
    if (std::sscanf(text, "%llu %llu", &running, &queued) == 2) {
      usage.queued = queued;
    }
  }
  return usage;
}

Recording* Recording::Open(const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "we");
  return file == nullptr ? nullptr : new Recording(file);
}

Recording::Recording(std::FILE* file) : out_(file), zero_(Clock(CLOCK_MONOTONIC)) {
  std::setvbuf(out_, nullptr, _IOFBF, 1 << 20);
  std::fputs("shingle-files 1\n", out_);
}

uint64_t Recording::now() const { return Clock(CLOCK_MONOTONIC) - zero_; }

// What the caller used since its last call.
Usage Recording::Between(Caller& caller) {
  if (caller.recording == nullptr) {
    const std::lock_guard<std::mutex> held(mutex_);
    caller.recording = this;
    caller.number = threads_++;
  }
  const Usage usage = caller.usage();
  const Usage between{usage.running - caller.used.running, usage.queued - caller.used.queued};
  caller.used = usage;
  return between;
}

void Recording::Line(Caller& caller, char kind, uint32_t file, uint64_t began, uint64_t ended, uint64_t took, const Usage& between,
                     const std::string& rest) {
  const uint64_t wall = began > caller.ended ? began - caller.ended : 0;
  const uint64_t running = std::min(between.running, wall);
  const uint64_t queued = std::min(between.queued, wall - running);
  const std::lock_guard<std::mutex> held(mutex_);
  // Calls of threads that ended while this one waited for the lock.
  const uint64_t us = std::max(ended / 1000, last_us_);
  std::fprintf(out_, "%c %" PRIu32 " %" PRIu32 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64, kind, caller.number, file, us - last_us_, took / 1000,
               running / 1000, queued / 1000);
  std::fputs(rest.c_str(), out_);
  std::fputc('\n', out_);
  last_us_ = us;
}

void Recording::CloseRun(Caller& caller) {
  const Run run = caller.run;
  caller.run = Run();
  if (run.bytes == 0) {
    return;
  }
  const uint64_t ended = caller.ended;
  const uint64_t span = ended - run.first;
  const uint64_t pauses = span - std::min(span, run.took);
  // What was used until now, as far as it fits in the run's time. Calls and pauses have used the processor alike.
  const Usage all = Between(caller);
  const uint64_t running = std::min(all.running, span);
  const uint64_t queued = std::min(all.queued, span - running);
  const Usage between{Part(running, pauses, span), Part(queued, pauses, span)};
  caller.ended = run.first;
  Line(caller, 'a', run.file, run.first + pauses, ended, run.took, between, " " + std::to_string(run.bytes));
  caller.ended = ended;
  // The rest was used since.
  caller.used.running -= all.running - running;
  caller.used.queued -= all.queued - queued;
}

uint64_t Recording::Begin() {
  Caller& caller = Caller::here();
  CloseRun(caller);
  const uint64_t began = now();
  caller.between = Between(caller);
  return began;
}

void Recording::End(uint64_t began, char kind, uint32_t file, const std::string& rest) {
  Caller& caller = Caller::here();
  const uint64_t ended = now();
  Line(caller, kind, file, began, ended, ended - began, caller.between, rest);
  caller.ended = ended;
  caller.used = caller.usage();
}

uint64_t Recording::BeginAppend(uint32_t file) {
  const Caller& caller = Caller::here();
  const Run& run = caller.run;
  const uint64_t began = now();
  const bool follows = run.open && run.file == file && run.bytes < kRunBytes && began - run.first < kRunNanos && began - caller.ended < kPauseNanos;
  return follows ? began : Begin();
}

void Recording::EndAppend(uint64_t began, uint32_t file, uint64_t bytes) {
  Caller& caller = Caller::here();
  if (caller.run.open) {
    caller.ended = now();
    caller.run.bytes += bytes;
    caller.run.took += caller.ended - began;
    return;
  }
  End(began, 'a', file, " " + std::to_string(bytes));
  caller.run = Run{true, file, 0, caller.ended, 0};
}

uint32_t Recording::Known(const std::string& path, uint64_t size) {
  uint32_t number = 0;
  {
    const std::lock_guard<std::mutex> held(mutex_);
    const auto found = names_.find(path);
    if (found != names_.end()) {
      return found->second;
    }
    number = files_++;
    names_[path] = number;
  }
  End(Begin(), 'e', number, " " + NameOf(path) + " " + std::to_string(size));
  return number;
}

uint32_t Recording::Create(const std::string& path) {
  const std::lock_guard<std::mutex> held(mutex_);
  return names_[path] = files_++;
}

void Recording::Rename(const std::string& from, const std::string& to) {
  const std::lock_guard<std::mutex> held(mutex_);
  const auto found = names_.find(from);
  if (found != names_.end()) {
    const uint32_t number = found->second;
    names_.erase(found);
    names_[to] = number;
  }
}

void Recording::Remove(const std::string& path) {
  const std::lock_guard<std::mutex> held(mutex_);
  names_.erase(path);
}

}  // namespace shingle
