// Files that are being read.
#pragma once

#include <memory>
#include <string>

#include "rocksdb/file_system.h"
#include "rocksdb/version.h"
#include "shingle/files.h"

namespace shingle {

struct CloseReader {
  void operator()(shingle_reader* reader) const { shingle_reader_close(reader); }
};
using ReaderPtr = std::unique_ptr<shingle_reader, CloseReader>;

class SequentialFile : public rocksdb::FSSequentialFile {
 public:
  SequentialFile(std::string path, ReaderPtr reader) : path_(std::move(path)), reader_(std::move(reader)) {}

  rocksdb::IOStatus Read(size_t n, const rocksdb::IOOptions& options, rocksdb::Slice* result, char* scratch, rocksdb::IODebugContext* dbg) override;
  rocksdb::IOStatus PositionedRead(uint64_t offset, size_t n, const rocksdb::IOOptions& options, rocksdb::Slice* result, char* scratch,
                                   rocksdb::IODebugContext* dbg) override;
  rocksdb::IOStatus Skip(uint64_t n) override;
  rocksdb::IOStatus InvalidateCache(size_t offset, size_t length) override;

 private:
  const std::string path_;
  const ReaderPtr reader_;
  uint64_t position_ = 0;
};

// RocksDB 8 lets the callback of an asynchronous read change its request.
#if ROCKSDB_MAJOR >= 8
using ReadCallback = std::function<void(rocksdb::FSReadRequest&, void*)>;
#else
using ReadCallback = std::function<void(const rocksdb::FSReadRequest&, void*)>;
#endif

class RandomAccessFile : public rocksdb::FSRandomAccessFile {
 public:
  RandomAccessFile(std::string path, uint64_t store, ReaderPtr reader) : path_(std::move(path)), store_(store), reader_(std::move(reader)) {}

  rocksdb::IOStatus Read(uint64_t offset, size_t n, const rocksdb::IOOptions& options, rocksdb::Slice* result, char* scratch,
                         rocksdb::IODebugContext* dbg) const override;
  rocksdb::IOStatus MultiRead(rocksdb::FSReadRequest* requests, size_t count, const rocksdb::IOOptions& options, rocksdb::IODebugContext* dbg) override;
  rocksdb::IOStatus ReadAsync(rocksdb::FSReadRequest& request, const rocksdb::IOOptions& options, ReadCallback callback, void* argument, void** handle,
                              rocksdb::IOHandleDeleter* deleter, rocksdb::IODebugContext* dbg) override;
  rocksdb::IOStatus InvalidateCache(size_t offset, size_t length) override;
  size_t GetUniqueId(char* id, size_t max_size) const override;

 private:
  const std::string path_;
  const uint64_t store_;
  const ReaderPtr reader_;
};

// Waits for all reads that `handles` stand for, and calls back for each.
rocksdb::IOStatus PollReads(std::vector<void*>& handles);
// Gives them up, and calls back for each to say so.
rocksdb::IOStatus AbortReads(std::vector<void*>& handles);

}  // namespace shingle
