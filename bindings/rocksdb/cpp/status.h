// Results of the C interface as those of RocksDB.
#pragma once

#include <string>

#include "rocksdb/io_status.h"
#include "shingle/files.h"

namespace shingle {

// The text of a failed call.
class Message {
 public:
  Message() = default;
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;
  ~Message() { shingle_string_free(text_); }

  char** out() { return &text_; }
  std::string str() const { return text_ == nullptr ? std::string() : std::string(text_); }

 private:
  char* text_ = nullptr;
};

// What RocksDB is to make of a result of a call on `path`: which error it is, whether trying again may help, whether data are lost, and how far it reaches.
rocksdb::IOStatus StatusOf(int result, const std::string& path, const Message& message);

}  // namespace shingle
