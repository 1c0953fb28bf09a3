// RocksDB's file system, and a database on it, while the drive fails: which errors they tell, and what RocksDB makes of them.
//
//   faults rotten URI PATH       the file at PATH is damaged; the error says that data are lost
//   faults failing URI PATH DRIVE AT  the drive, a file, is cut at byte AT, which lies in the file at PATH; the error says that trying again may help
//   faults tables URI DB MARK    makes a database of two tables, the first value of which is MARK
//   faults spoilt URI DB         MARK is damaged: the database stops when it comes to merge that table
//   faults cut URI DB DRIVE AT   the drive, a file, is cut at byte AT, that of MARK: the tables cannot be merged, and the database goes on
//   faults orphan URI            uses the drive until the process that owns it is gone; the errors say that nothing helps but to open it again

#include <unistd.h>

#include <chrono>
#include <cstring>
#include <thread>

#include "checks.h"
#include "rocksdb/db.h"
#include "rocksdb/env.h"
#include "rocksdb/options.h"

namespace {

void Rotten(const std::string& uri, const std::string& path) {
  const auto fs = Open(uri);
  uint64_t size = 0;
  OK(fs->GetFileSize(path, kIo, &size, nullptr));
  std::unique_ptr<FSRandomAccessFile> file;
  OK(fs->NewRandomAccessFile(path, kFile, &file, nullptr));
  std::vector<char> scratch(size);
  Slice piece;
  const IOStatus read = file->Read(0, size, kIo, &piece, scratch.data(), nullptr);
  CHECK(read.IsCorruption() && read.GetDataLoss() && !read.GetRetryable() && read.GetScope() == IOStatus::kIOErrorScopeFileSystem);
  FSReadRequest request;
  request.offset = 0;
  request.len = size;
  request.scratch = scratch.data();
  OK(file->MultiRead(&request, 1, kIo, nullptr));
  CHECK(request.status.IsCorruption() && request.status.GetDataLoss());
  CHECK(file->Read(0, 10, kIo, &piece, nullptr, nullptr).IsInvalidArgument());
}

// Reads of a drive that fails them. Bytes that it cannot read are not known to be lost.
void Failing(const std::string& uri, const std::string& path, const char* drive, off_t at) {
  const auto fs = Open(uri);
  uint64_t size = 0;
  OK(fs->GetFileSize(path, kIo, &size, nullptr));
  std::unique_ptr<FSRandomAccessFile> file;
  OK(fs->NewRandomAccessFile(path, kFile, &file, nullptr));
  CHECK(truncate(drive, at) == 0);
  const auto failed = [](const IOStatus& status) {
    return status.IsIOError() && !status.IsPathNotFound() && status.GetRetryable() && !status.GetDataLoss() && status.GetScope() == IOStatus::kIOErrorScopeFile;
  };
  std::vector<char> scratch(size);
  Slice piece;
  CHECK(failed(file->Read(0, size, kIo, &piece, scratch.data(), nullptr)));
  FSReadRequest request;
  request.offset = size - 1000;
  request.len = 1000;
  request.scratch = scratch.data();
  OK(file->MultiRead(&request, 1, kIo, nullptr));
  CHECK(failed(request.status));
  std::unique_ptr<FSSequentialFile> in_order;
  OK(fs->NewSequentialFile(path, kFile, &in_order, nullptr));
  CHECK(failed(in_order->Read(size, kIo, &piece, scratch.data(), nullptr)));
  // All else goes on.
  Put(*fs, "/other", "1");
  CHECK(Get(*fs, "/other") == "1");
}

// Says "ready", and goes on until another process, which owns the drive, is gone.
void Orphan(const std::string& uri) {
  const auto fs = Open(uri);
  Put(*fs, "/plain", "1");
  std::unique_ptr<FSRandomAccessFile> reader;
  OK(fs->NewRandomAccessFile("/plain", kFile, &reader, nullptr));
  std::unique_ptr<FSWritableFile> log;
  OK(fs->NewWritableFile("/000001.log", kFile, &log, nullptr));
  puts("ready");
  fflush(stdout);
  IOStatus synced;
  for (int round = 0; round < 10000 && synced.ok(); ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    synced = log->Append("more", kIo, nullptr);
    if (synced.ok()) {
      synced = log->Sync(kIo, nullptr);
    }
  }
  const auto gone = [](const IOStatus& status) {
    return status.IsIOError() && !status.IsPathNotFound() && !status.IsNoSpace() && !status.GetRetryable() && !status.GetDataLoss() &&
           status.GetScope() == IOStatus::kIOErrorScopeFileSystem;
  };
  CHECK(gone(synced));
  CHECK(gone(log->Sync(kIo, nullptr)));
  char scratch[8];
  Slice piece;
  CHECK(gone(reader->Read(0, 1, kIo, &piece, scratch, nullptr)));
  uint64_t size = 0;
  std::vector<std::string> names;
  std::unique_ptr<FSWritableFile> file;
  FileLock* lock = nullptr;
  CHECK(gone(fs->GetFileSize("/plain", kIo, &size, nullptr)));
  CHECK(gone(fs->FileExists("/plain", kIo, nullptr)));
  CHECK(gone(fs->GetChildren("/", kIo, &names, nullptr)));
  CHECK(gone(fs->NewWritableFile("/other", kFile, &file, nullptr)) && file == nullptr);
  CHECK(gone(fs->RenameFile("/plain", "/other", kIo, nullptr)));
  CHECK(gone(fs->DeleteFile("/plain", kIo, nullptr)));
  CHECK(gone(fs->LockFile("/LOCK", kIo, &lock, nullptr)) && lock == nullptr);
  CHECK(gone(fs->GetFreeSpace("/", kIo, &size, nullptr)));
}

// Large tables, of which an opening reads no more than the ends.
std::unique_ptr<DB> OpenTables(const std::string& uri, const std::string& path, std::unique_ptr<Env>* env) {
  *env = NewCompositeEnv(Open(uri));
  Options options;
  options.create_if_missing = true;
  options.env = env->get();
  options.compression = kNoCompression;
  options.disable_auto_compactions = true;
  DB* db = nullptr;
  OK(DB::Open(options, path, &db));
  return std::unique_ptr<DB>(db);
}

void Tables(const std::string& uri, const std::string& path, const std::string& mark) {
  std::unique_ptr<Env> env;
  const auto db = OpenTables(uri, path, &env);
  WriteOptions options;
  options.disableWAL = true;
  for (unsigned table = 0; table < 2; ++table) {
    for (unsigned number = table; number < 4000; ++number) {
      OK(db->Put(options, Key(number), number == 0 ? mark : Pattern(1000, number)));
    }
    OK(db->Flush(FlushOptions()));
  }
}

// On other file systems, too, a table that fails RocksDB's own checks stops the database.
void Spoilt(const std::string& uri, const std::string& path) {
  std::unique_ptr<Env> env;
  const auto db = OpenTables(uri, path, &env);
  CHECK(db->CompactRange(CompactRangeOptions(), nullptr, nullptr).IsCorruption());
  const Status stopped = db->Put(WriteOptions(), Key(1), "x");
  CHECK(stopped.IsCorruption() && stopped.severity() == Status::kUnrecoverableError);
}

void Cut(const std::string& uri, const std::string& path, const char* drive, off_t at) {
  std::unique_ptr<Env> env;
  const auto db = OpenTables(uri, path, &env);
  CHECK(truncate(drive, at) == 0);
  CHECK(db->CompactRange(CompactRangeOptions(), nullptr, nullptr).IsIOError());
  OK(db->Put(WriteOptions(), Key(1), "x"));
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 2 ? argv[1] : "";
  if (mode == "rotten" && argc == 4) {
    Rotten(argv[2], argv[3]);
  } else if (mode == "failing" && argc == 6) {
    Failing(argv[2], argv[3], argv[4], strtol(argv[5], nullptr, 10));
  } else if (mode == "tables" && argc == 5) {
    Tables(argv[2], argv[3], argv[4]);
  } else if (mode == "spoilt" && argc == 4) {
    Spoilt(argv[2], argv[3]);
  } else if (mode == "cut" && argc == 6) {
    Cut(argv[2], argv[3], argv[4], strtol(argv[5], nullptr, 10));
  } else if (mode == "orphan" && argc == 3) {
    Orphan(argv[2]);
  } else {
    fprintf(stderr, "see the head of faults.cc\n");
    return 2;
  }
  return 0;
}
