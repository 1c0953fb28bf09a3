#include "info_log.h"

#include <pthread.h>
#include <sys/time.h>

#include <cstdarg>
#include <cstdio>
#include <ctime>
#include <vector>

namespace shingle {

namespace {

constexpr std::chrono::seconds kFlushPause{5};
constexpr std::chrono::seconds kTryPause{1};

// As RocksDB's own logs begin their lines: local time, and the thread.
std::string Head() {
  timeval now{};
  gettimeofday(&now, nullptr);
  const time_t seconds = now.tv_sec;
  tm parts{};
  localtime_r(&seconds, &parts);
  char head[80];
  snprintf(head, sizeof(head), "%04d/%02d/%02d-%02d:%02d:%02d.%06d %llx ", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday, parts.tm_hour,
           parts.tm_min, parts.tm_sec, static_cast<int>(now.tv_usec), static_cast<unsigned long long>(pthread_self()));
  return head;
}

std::string Formatted(const char* format, va_list arguments) {
  va_list measured;
  va_copy(measured, arguments);
  const int length = vsnprintf(nullptr, 0, format, measured);
  va_end(measured);
  if (length <= 0) {
    return std::string();
  }
  std::vector<char> text(static_cast<size_t>(length) + 1);
  vsnprintf(text.data(), text.size(), format, arguments);
  return std::string(text.data(), static_cast<size_t>(length));
}

}  // namespace

InfoLog::~InfoLog() {
  if (!closed_) {
    CloseImpl().PermitUncheckedError();
  }
}

void InfoLog::Logv(const char* format, va_list arguments) {
  std::string line = Head() + Formatted(format, arguments);
  if (line.back() != '\n') {
    line.push_back('\n');
  }
  Append(line);
}

void InfoLog::Append(const std::string& line) {
  const std::lock_guard<std::mutex> guard(mutex_);
  if (closed_) {
    return;
  }
  const auto now = std::chrono::steady_clock::now();
  if (!writer_) {
    if (now < next_try_) {
      return;
    }
    next_try_ = now + kTryPause;
    shingle_writer* writer = nullptr;
    if (shingle_append_to(files_.get(), path_.c_str(), &writer, nullptr) != SHINGLE_OK) {
      return;
    }
    writer_.reset(writer);
  }
  const bool flushes = now >= next_flush_;
  if (shingle_append(writer_.get(), line.data(), line.size(), nullptr) != SHINGLE_OK ||
      (flushes && shingle_flush(writer_.get(), nullptr) != SHINGLE_OK)) {
    writer_.reset();
    next_try_ = now + kTryPause;
  }
  if (flushes) {
    next_flush_ = now + kFlushPause;
  }
}

void InfoLog::Flush() {
  const std::lock_guard<std::mutex> guard(mutex_);
  if (writer_) {
    shingle_flush(writer_.get(), nullptr);
  }
}

size_t InfoLog::GetLogFileSize() const {
  const std::lock_guard<std::mutex> guard(mutex_);
  return writer_ ? shingle_writer_size(writer_.get()) : 0;
}

rocksdb::Status InfoLog::CloseImpl() {
  const std::lock_guard<std::mutex> guard(mutex_);
  closed_ = true;
  writer_.reset();
  return rocksdb::Status::OK();
}

}  // namespace shingle
