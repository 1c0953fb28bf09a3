// RocksDB's file system on the zones of a drive: a translation of calls, and nothing else. (Dissertation, section 5.4.)
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "rocksdb/file_system.h"
#include "shingle/files.h"

namespace shingle {

// Shared with the info log, which may outlive the file system.
using FilesPtr = std::shared_ptr<shingle_files>;

class FileSystem : public rocksdb::FileSystem {
 public:
  // Opens the drive that `uri` names: `shingle://file:PATH`, `shingle://dev:PATH`, `shingle://uuid:STORE`.
  static rocksdb::IOStatus Open(const std::string& uri, std::unique_ptr<rocksdb::FileSystem>* result);

  // Files that are served at the other end of a socket. No cache of tables: the database has one.
  static rocksdb::IOStatus OnSocket(int socket, std::unique_ptr<rocksdb::FileSystem>* result);

  const char* Name() const override { return "shingle"; }
  std::string GetId() const override { return uri_; }
  bool IsInstanceOf(const std::string& id) const override;

  rocksdb::IOStatus NewSequentialFile(const std::string& path, const rocksdb::FileOptions& options, std::unique_ptr<rocksdb::FSSequentialFile>* result,
                                      rocksdb::IODebugContext* dbg) override;
  rocksdb::IOStatus NewRandomAccessFile(const std::string& path, const rocksdb::FileOptions& options, std::unique_ptr<rocksdb::FSRandomAccessFile>* result,
                                        rocksdb::IODebugContext* dbg) override;
  rocksdb::IOStatus NewWritableFile(const std::string& path, const rocksdb::FileOptions& options, std::unique_ptr<rocksdb::FSWritableFile>* result,
                                    rocksdb::IODebugContext* dbg) override;
  rocksdb::IOStatus ReopenWritableFile(const std::string& path, const rocksdb::FileOptions& options, std::unique_ptr<rocksdb::FSWritableFile>* result,
                                       rocksdb::IODebugContext* dbg) override;
  rocksdb::IOStatus NewDirectory(const std::string& path, const rocksdb::IOOptions& options, std::unique_ptr<rocksdb::FSDirectory>* result,
                                 rocksdb::IODebugContext* dbg) override;

  rocksdb::IOStatus FileExists(const std::string& path, const rocksdb::IOOptions& options, rocksdb::IODebugContext* dbg) override;
  rocksdb::IOStatus GetChildren(const std::string& path, const rocksdb::IOOptions& options, std::vector<std::string>* result,
                                rocksdb::IODebugContext* dbg) override;
  rocksdb::IOStatus GetChildrenFileAttributes(const std::string& path, const rocksdb::IOOptions& options, std::vector<rocksdb::FileAttributes>* result,
                                              rocksdb::IODebugContext* dbg) override;
  rocksdb::IOStatus DeleteFile(const std::string& path, const rocksdb::IOOptions& options, rocksdb::IODebugContext* dbg) override;
  rocksdb::IOStatus Truncate(const std::string& path, size_t size, const rocksdb::IOOptions& options, rocksdb::IODebugContext* dbg) override;
  rocksdb::IOStatus CreateDir(const std::string& path, const rocksdb::IOOptions& options, rocksdb::IODebugContext* dbg) override;
  rocksdb::IOStatus CreateDirIfMissing(const std::string& path, const rocksdb::IOOptions& options, rocksdb::IODebugContext* dbg) override;
  rocksdb::IOStatus DeleteDir(const std::string& path, const rocksdb::IOOptions& options, rocksdb::IODebugContext* dbg) override;
  rocksdb::IOStatus GetFileSize(const std::string& path, const rocksdb::IOOptions& options, uint64_t* size, rocksdb::IODebugContext* dbg) override;
  rocksdb::IOStatus GetFileModificationTime(const std::string& path, const rocksdb::IOOptions& options, uint64_t* time,
                                            rocksdb::IODebugContext* dbg) override;
  rocksdb::IOStatus RenameFile(const std::string& from, const std::string& to, const rocksdb::IOOptions& options, rocksdb::IODebugContext* dbg) override;
  rocksdb::IOStatus LinkFile(const std::string& from, const std::string& to, const rocksdb::IOOptions& options, rocksdb::IODebugContext* dbg) override;
  rocksdb::IOStatus NumFileLinks(const std::string& path, const rocksdb::IOOptions& options, uint64_t* count, rocksdb::IODebugContext* dbg) override;
  rocksdb::IOStatus AreFilesSame(const std::string& first, const std::string& second, const rocksdb::IOOptions& options, bool* same,
                                 rocksdb::IODebugContext* dbg) override;
  rocksdb::IOStatus LockFile(const std::string& path, const rocksdb::IOOptions& options, rocksdb::FileLock** lock, rocksdb::IODebugContext* dbg) override;
  rocksdb::IOStatus UnlockFile(rocksdb::FileLock* lock, const rocksdb::IOOptions& options, rocksdb::IODebugContext* dbg) override;
  rocksdb::IOStatus NewLogger(const std::string& path, const rocksdb::IOOptions& options, std::shared_ptr<rocksdb::Logger>* result,
                              rocksdb::IODebugContext* dbg) override;
  rocksdb::IOStatus GetTestDirectory(const rocksdb::IOOptions& options, std::string* path, rocksdb::IODebugContext* dbg) override;
  rocksdb::IOStatus GetAbsolutePath(const std::string& path, const rocksdb::IOOptions& options, std::string* absolute,
                                    rocksdb::IODebugContext* dbg) override;
  rocksdb::IOStatus GetFreeSpace(const std::string& path, const rocksdb::IOOptions& options, uint64_t* free, rocksdb::IODebugContext* dbg) override;
  rocksdb::IOStatus IsDirectory(const std::string& path, const rocksdb::IOOptions& options, bool* is, rocksdb::IODebugContext* dbg) override;
  rocksdb::IOStatus Poll(std::vector<void*>& handles, size_t min_completions) override;
  rocksdb::IOStatus AbortIO(std::vector<void*>& handles) override;

  // Files are read past the kernel's page cache, and written without it, whatever the options say.
  rocksdb::FileOptions OptimizeForLogWrite(const rocksdb::FileOptions& options, const rocksdb::DBOptions& db_options) const override;
  rocksdb::FileOptions OptimizeForManifestWrite(const rocksdb::FileOptions& options) const override;

 private:
  FileSystem(std::string uri, uint64_t store, FilesPtr files) : uri_(std::move(uri)), store_(store), files_(std::move(files)) {}

  static rocksdb::IOStatus Over(const std::string& uri, shingle_files* opened, std::unique_ptr<rocksdb::FileSystem>* result);
  rocksdb::IOStatus Stat(const std::string& path, shingle_about* about) const;

  const std::string uri_;
  const uint64_t store_;
  const FilesPtr files_;
};

}  // namespace shingle
