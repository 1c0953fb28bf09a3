// RocksDB's info log: lines for people. What cannot be written is left out, as it must never stop the database.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <string>

#include "rocksdb/env.h"
#include "shingle/files.h"
#include "writing.h"

namespace shingle {

class InfoLog : public rocksdb::Logger {
 public:
  InfoLog(std::shared_ptr<shingle_files> files, std::string path, WriterPtr writer)
      : files_(std::move(files)), path_(std::move(path)), writer_(std::move(writer)) {}
  ~InfoLog() override;

  using rocksdb::Logger::Logv;
  void Logv(const char* format, va_list arguments) override;
  void Flush() override;
  size_t GetLogFileSize() const override;

 protected:
  rocksdb::Status CloseImpl() override;

 private:
  // Appends a line. After a failure the file is opened anew, at most once in a second.
  void Append(const std::string& line);

  const std::shared_ptr<shingle_files> files_;
  const std::string path_;
  mutable std::mutex mutex_;
  WriterPtr writer_;
  bool closed_ = false;
  std::chrono::steady_clock::time_point next_flush_{};
  std::chrono::steady_clock::time_point next_try_{};
};

}  // namespace shingle
