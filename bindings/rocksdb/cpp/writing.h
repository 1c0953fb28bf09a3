// Files that are being written.
#pragma once

#include <memory>
#include <string>

#include "rocksdb/file_system.h"
#include "shingle/files.h"

namespace shingle {

struct CloseWriter {
  void operator()(shingle_writer* writer) const { shingle_writer_close(writer); }
};
using WriterPtr = std::unique_ptr<shingle_writer, CloseWriter>;

// What RocksDB keeps under a name: a log, a table, a manifest, or something else.
int KindOf(const std::string& path);
int LifetimeOf(rocksdb::Env::WriteLifeTimeHint hint);

class WritableFile : public rocksdb::FSWritableFile {
 public:
  WritableFile(std::string path, uint64_t store, const rocksdb::FileOptions& options, WriterPtr writer)
      : rocksdb::FSWritableFile(options), path_(std::move(path)), store_(store), writer_(std::move(writer)) {}

  using rocksdb::FSWritableFile::Append;
  rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options, rocksdb::IODebugContext* dbg) override;
  rocksdb::IOStatus Truncate(uint64_t size, const rocksdb::IOOptions& options, rocksdb::IODebugContext* dbg) override;
  rocksdb::IOStatus Close(const rocksdb::IOOptions& options, rocksdb::IODebugContext* dbg) override;
  rocksdb::IOStatus Flush(const rocksdb::IOOptions& options, rocksdb::IODebugContext* dbg) override;
  rocksdb::IOStatus Sync(const rocksdb::IOOptions& options, rocksdb::IODebugContext* dbg) override;
  rocksdb::IOStatus RangeSync(uint64_t offset, uint64_t length, const rocksdb::IOOptions& options, rocksdb::IODebugContext* dbg) override;
  rocksdb::IOStatus InvalidateCache(size_t offset, size_t length) override;
  bool IsSyncThreadSafe() const override { return true; }
  uint64_t GetFileSize(const rocksdb::IOOptions& options, rocksdb::IODebugContext* dbg) override;
  void SetWriteLifeTimeHint(rocksdb::Env::WriteLifeTimeHint hint) override;
  void SetPreallocationBlockSize(size_t size) override;
  void PrepareWrite(size_t offset, size_t length, const rocksdb::IOOptions& options, rocksdb::IODebugContext* dbg) override;
  size_t GetUniqueId(char* id, size_t max_size) const override;

 private:
  const std::string path_;
  const uint64_t store_;
  WriterPtr writer_;
  uint64_t size_when_closed_ = 0;
};

}  // namespace shingle
