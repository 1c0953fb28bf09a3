// What RocksDB expects of a file system, asked of the one on zones; and a database for others to kill.
//
//   contract calls URI             each call of the file system, its results and its errors
//   contract fill URI DB SYNC [N]  writes keys 0, 1, 2, ... with values of N bytes and prints each one that is acknowledged, until it is killed
//   contract verify URI DB COUNT [N]  keys 0 to COUNT-1 are there with their values; prints how many there are
//   contract follow URI DB         opens DB beside its writer, to read alone and as a secondary, which catches up until 1000 more keys are seen
//   contract families URI DB       column families: written together, read after each opening, and dropped
//   contract full URI              fills the drive; the error says that there is no room, and that trying again may help

#include <dlfcn.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "checks.h"
#include "rocksdb/convenience.h"
#include "rocksdb/db.h"
#include "rocksdb/env.h"
#include "rocksdb/file_system.h"
#include "rocksdb/options.h"
#include "rocksdb/write_batch.h"
#include "shingle/files.h"

using namespace rocksdb;

namespace {

void Names(FileSystem& fs) {
  CHECK(fs.FileExists("/a", kIo, nullptr).IsNotFound());
  OK(fs.CreateDir("/a", kIo, nullptr));
  CHECK(!fs.CreateDir("/a", kIo, nullptr).ok());
  OK(fs.CreateDirIfMissing("/a", kIo, nullptr));
  OK(fs.CreateDirIfMissing("/x/y//z/", kIo, nullptr));
  bool directory = false;
  OK(fs.IsDirectory("/x/y", kIo, &directory, nullptr));
  CHECK(directory);
  Put(fs, "/a/one", "1");
  Put(fs, "/a/two", "22");
  OK(fs.IsDirectory("/a/one", kIo, &directory, nullptr));
  CHECK(!directory);
  CHECK(!fs.CreateDirIfMissing("/a/one", kIo, nullptr).ok());
  OK(fs.FileExists("//a///one", kIo, nullptr));
  std::vector<std::string> names;
  OK(fs.GetChildren("/a/", kIo, &names, nullptr));
  CHECK((names == std::vector<std::string>{"one", "two"}));
  std::vector<FileAttributes> attributes;
  OK(fs.GetChildrenFileAttributes("/a", kIo, &attributes, nullptr));
  CHECK(attributes.size() == 2 && attributes[1].name == "two" && attributes[1].size_bytes == 2);
  CHECK(fs.GetChildren("/none", kIo, &names, nullptr).IsNotFound());

  uint64_t number = 0;
  OK(fs.GetFileSize("/a/two", kIo, &number, nullptr));
  CHECK(number == 2);
  CHECK(fs.GetFileSize("/a/none", kIo, &number, nullptr).IsPathNotFound());
  OK(fs.GetFileModificationTime("/a/two", kIo, &number, nullptr));
  CHECK(number + 3600 > static_cast<uint64_t>(time(nullptr)) && number < static_cast<uint64_t>(time(nullptr)) + 3600);

  OK(fs.RenameFile("/a/one", "/a/two", kIo, nullptr));
  CHECK(Get(fs, "/a/two") == "1");
  CHECK(fs.RenameFile("/a/one", "/a/two", kIo, nullptr).IsPathNotFound());
  OK(fs.LinkFile("/a/two", "/a/three", kIo, nullptr));
  OK(fs.NumFileLinks("/a/three", kIo, &number, nullptr));
  CHECK(number == 2);
  bool same = false;
  OK(fs.AreFilesSame("/a/two", "/a/three", kIo, &same, nullptr));
  CHECK(same);
  CHECK(!fs.LinkFile("/a/two", "/a/three", kIo, nullptr).ok());
  CHECK(!fs.DeleteDir("/a", kIo, nullptr).ok());
  OK(fs.DeleteFile("/a/two", kIo, nullptr));
  CHECK(fs.DeleteFile("/a/two", kIo, nullptr).IsPathNotFound());
  CHECK(Get(fs, "/a/three") == "1");
  OK(fs.DeleteFile("/a/three", kIo, nullptr));
  OK(fs.DeleteDir("/a", kIo, nullptr));

  FileLock* lock = nullptr;
  FileLock* other = nullptr;
  OK(fs.LockFile("/LOCK", kIo, &lock, nullptr));
  CHECK(fs.LockFile("/LOCK", kIo, &other, nullptr).IsIOError() && other == nullptr);
  OK(fs.UnlockFile(lock, kIo, nullptr));
  OK(fs.LockFile("/LOCK", kIo, &lock, nullptr));
  OK(fs.UnlockFile(lock, kIo, nullptr));

  std::string path;
  OK(fs.GetTestDirectory(kIo, &path, nullptr));
  OK(fs.FileExists(path, kIo, nullptr));
  OK(fs.GetAbsolutePath("relative", kIo, &path, nullptr));
  CHECK(path == "/relative");
  OK(fs.GetFreeSpace("/", kIo, &number, nullptr));
  CHECK(number > 0);
  std::unique_ptr<FSDirectory> opened;
  OK(fs.NewDirectory("/x", kIo, &opened, nullptr));
  OK(opened->FsyncWithDirOptions(kIo, nullptr, DirFsyncOptions()));
  OK(opened->Close(kIo, nullptr));
  CHECK(!fs.NewDirectory("/none", kIo, &opened, nullptr).ok() && opened == nullptr);
}

void Reads(FileSystem& fs) {
  const std::string bytes = Pattern(3000001, 5);
  for (const char* path : {"/000007.sst", "/plain"}) {
    Put(fs, path, bytes);
    CHECK(Get(fs, path) == bytes);
    std::unique_ptr<FSRandomAccessFile> file;
    OK(fs.NewRandomAccessFile(path, kFile, &file, nullptr));
    std::vector<char> scratch(200000);
    Slice piece;
    OK(file->Read(2999990, 100, kIo, &piece, scratch.data(), nullptr));
    CHECK(piece.size() == 11 && bytes.compare(2999990, 11, piece.data(), 11) == 0);
    OK(file->Read(4000000, 100, kIo, &piece, scratch.data(), nullptr));
    CHECK(piece.empty());

    std::vector<FSReadRequest> requests(40);
    std::vector<std::vector<char>> memory(40, std::vector<char>(60000));
    for (size_t at = 0; at < requests.size(); ++at) {
      requests[at].offset = at * 77777;
      requests[at].len = 10 + at * 1500;
      requests[at].scratch = memory[at].data();
    }
    OK(file->MultiRead(requests.data(), requests.size(), kIo, nullptr));
    for (const FSReadRequest& request : requests) {
      OK(request.status);
      const std::string expected = request.offset < bytes.size() ? bytes.substr(request.offset, request.len) : "";
      CHECK(request.result.ToString() == expected);
    }

    // Reads that are begun, waited for out of order, and given up.
    struct Answer {
      int calls = 0;
      std::string bytes;
      Status status;
    };
    std::vector<Answer> answers(30);
    std::vector<void*> handles(30, nullptr);
    std::vector<IOHandleDeleter> deleters(30);
    for (size_t at = 0; at < answers.size(); ++at) {
      FSReadRequest request;
      request.offset = 100000 * at + 50;
      request.len = 1000 + at;
      request.scratch = memory[at].data();
      OK(file->ReadAsync(
          request, kIo,
          [](const FSReadRequest& done, void* argument) {
            auto* answer = static_cast<Answer*>(argument);
            answer->calls += 1;
            answer->bytes = done.result.ToString();
            answer->status = done.status;
          },
          &answers[at], &handles[at], &deleters[at], nullptr));
    }
    std::vector<void*> given_up{handles[3], handles[4]};
    OK(fs.AbortIO(given_up));
    std::vector<void*> late(handles.rbegin(), handles.rend());
    OK(fs.Poll(late, late.size()));
    for (size_t at = 0; at < answers.size(); ++at) {
      CHECK(answers[at].calls == 1);
      if (!answers[at].status.IsAborted()) {
        OK(answers[at].status);
        CHECK(answers[at].bytes == bytes.substr(100000 * at + 50, 1000 + at));
      } else {
        CHECK(at == 3 || at == 4);
      }
      if (handles[at] != nullptr) {
        deleters[at](handles[at]);
      }
    }
    char one[32];
    char other[32];
    CHECK(file->GetUniqueId(one, sizeof(one)) > 0);
    file.reset();
    OK(fs.NewRandomAccessFile(path, kFile, &file, nullptr));
    CHECK(file->GetUniqueId(other, sizeof(other)) > 0 && memcmp(one, other, 16) == 0);
    // It can be read after its name is gone.
    OK(fs.DeleteFile(path, kIo, nullptr));
    OK(file->Read(1000, 500, kIo, &piece, scratch.data(), nullptr));
    CHECK(piece.ToString() == bytes.substr(1000, 500));
  }
  std::unique_ptr<FSRandomAccessFile> none;
  CHECK(fs.NewRandomAccessFile("/none", kFile, &none, nullptr).IsPathNotFound() && none == nullptr);
}

void Writes(FileSystem& fs) {
  std::unique_ptr<FSWritableFile> file;
  OK(fs.NewWritableFile("/000001.log", kFile, &file, nullptr));
  file->SetWriteLifeTimeHint(Env::WLTH_SHORT);
  std::string all;
  for (unsigned round = 0; round < 500; ++round) {
    const std::string piece = Pattern(1 + round * 13, round);
    OK(file->Append(piece, kIo, nullptr));
    all += piece;
    if (round % 3 == 0) {
      OK(file->Flush(kIo, nullptr));
      uint64_t size = 0;
      OK(fs.GetFileSize("/000001.log", kIo, &size, nullptr));
      CHECK(size == all.size());
    }
    if (round % 50 == 0) {
      OK(round % 100 == 0 ? file->Sync(kIo, nullptr) : file->Fsync(kIo, nullptr));
    }
  }
  OK(file->Flush(kIo, nullptr));
  CHECK(Get(fs, "/000001.log") == all);
  OK(file->Truncate(1000, kIo, nullptr));
  OK(file->Append("end", kIo, nullptr));
  OK(file->Close(kIo, nullptr));
  CHECK(Get(fs, "/000001.log") == all.substr(0, 1000) + "end");
  OK(fs.ReopenWritableFile("/000001.log", kFile, &file, nullptr));
  CHECK(file->GetFileSize(kIo, nullptr) == 1003);
  OK(file->Append("more", kIo, nullptr));
  OK(file->Sync(kIo, nullptr));
  OK(file->Close(kIo, nullptr));
  OK(fs.Truncate("/000001.log", 1004, kIo, nullptr));
  CHECK(Get(fs, "/000001.log") == all.substr(0, 1000) + "endm");
  // A log that is used again starts empty.
  OK(fs.ReuseWritableFile("/000002.log", "/000001.log", kFile, &file, nullptr));
  OK(file->Append("new", kIo, nullptr));
  OK(file->Close(kIo, nullptr));
  CHECK(Get(fs, "/000002.log") == "new");
  CHECK(fs.FileExists("/000001.log", kIo, nullptr).IsNotFound());
  CHECK(!fs.NewWritableFile("/none/file", kFile, &file, nullptr).ok() && file == nullptr);
  // Appends of one thread, syncs of another.
  OK(fs.NewWritableFile("/000003.log", kFile, &file, nullptr));
  CHECK(file->IsSyncThreadSafe());
  std::atomic<bool> ends{false};
  std::thread syncs([&] {
    while (!ends) {
      OK(file->Sync(kIo, nullptr));
    }
  });
  for (unsigned round = 0; round < 2000; ++round) {
    OK(file->Append(Pattern(100, round), kIo, nullptr));
  }
  ends = true;
  syncs.join();
  OK(file->Close(kIo, nullptr));
}

void Errors(const std::string& uri) {
  std::shared_ptr<FileSystem> fs;
  for (const char* bad : {"shingle://", "shingle://file:", "shingle://file:/none/disk", "shingle://uuid:zz", "shingle://uuid:0123456789abcdef", "shingle://disk"}) {
    const Status status = FileSystem::CreateFromString(ConfigOptions(), bad, &fs);
    CHECK(!status.ok());
    // The words of whoever found the fault reach the user.
    CHECK(status.ToString().size() > strlen(bad) + 10);
  }
  // The drive is open already: it is shared.
  const auto again = Open(uri);
  OK(again->FileExists("/x", kIo, nullptr));
  std::shared_ptr<FileSystem> one = Open(uri);
  CHECK(one->IsInstanceOf(uri) && std::string(one->Name()) == "shingle");
  std::string text(5000, 'x');
  CHECK(one->FileExists("/" + text, kIo, nullptr).IsInvalidArgument());
  CHECK(one->FileExists("/\xff\xfe", kIo, nullptr).IsInvalidArgument());
  // A lock is one of the place, however its path is written.
  FileLock* lock = nullptr;
  OK(one->LockFile("/LOCK", kIo, &lock, nullptr));
  for (const char* same : {"/LOCK", "LOCK", "//LOCK", "/./LOCK"}) {
    FileLock* other = nullptr;
    const IOStatus locked = one->LockFile(same, kIo, &other, nullptr);
    CHECK(locked.IsIOError() && !locked.GetRetryable() && !locked.GetDataLoss() && locked.GetScope() == IOStatus::kIOErrorScopeFileSystem);
  }
  OK(one->UnlockFile(lock, kIo, nullptr));
  std::unique_ptr<FSRandomRWFile> random;
  CHECK(one->NewRandomRWFile("/x", kFile, &random, nullptr).IsNotSupported());
}

// Figures for monitoring come through a function of the caller's.
void Metrics(const std::string& uri) {
  const auto open = reinterpret_cast<decltype(&shingle_files_open)>(dlsym(RTLD_DEFAULT, "shingle_files_open"));
  const auto metrics = reinterpret_cast<decltype(&shingle_metrics)>(dlsym(RTLD_DEFAULT, "shingle_metrics"));
  const auto close = reinterpret_cast<decltype(&shingle_files_close)>(dlsym(RTLD_DEFAULT, "shingle_files_close"));
  CHECK(open != nullptr && metrics != nullptr && close != nullptr);
  shingle_files* files = nullptr;
  CHECK(open(uri.substr(strlen("shingle://")).c_str(), 0, &files, nullptr) == SHINGLE_OK);
  std::string figures;
  const auto take = [](void* context, const char* text) { *static_cast<std::string*>(context) += text; };
  CHECK(metrics(files, take, &figures, nullptr) == SHINGLE_OK);
  close(files);
  const size_t free = figures.find("\nshingle_files_free_bytes{store=\"");
  CHECK(figures.rfind("# HELP ", 0) == 0 && free != std::string::npos);
  CHECK(std::stoull(figures.substr(figures.find("} ", free) + 2)) > 0);
}

// Writes until there is no room, on a drive on which nothing else writes.
void Full(const std::string& uri) {
  const auto fs = Open(uri);
  const std::string bytes = Pattern(1 << 20, 1);
  for (int number = 0; number < 100000; ++number) {
    std::unique_ptr<FSWritableFile> file;
    IOStatus status = fs->NewWritableFile("/" + std::to_string(number) + ".sst", kFile, &file, nullptr);
    if (status.ok()) {
      status = file->Append(bytes, kIo, nullptr);
    }
    if (status.ok()) {
      status = file->Sync(kIo, nullptr);
    }
    if (!status.ok()) {
      CHECK(status.IsNoSpace() && status.GetRetryable() && !status.GetDataLoss() && status.GetScope() == IOStatus::kIOErrorScopeFileSystem);
      CHECK(number > 5);
      return;
    }
  }
  CHECK(false);
}

std::unique_ptr<DB> OpenDb(const std::string& uri, const std::string& path, std::unique_ptr<Env>* env, const std::string& secondary = "") {
  *env = NewCompositeEnv(Open(uri));
  Options options;
  options.create_if_missing = true;
  options.env = env->get();
  // Small, so that tables are written and merged all the time.
  options.write_buffer_size = 256 << 10;
  options.target_file_size_base = 256 << 10;
  options.max_bytes_for_level_base = 1 << 20;
  options.paranoid_file_checks = true;
  options.max_open_files = -1;
  DB* db = nullptr;
  OK(secondary.empty() ? DB::Open(options, path, &db) : DB::OpenAsSecondary(options, path, secondary, &db));
  return std::unique_ptr<DB>(db);
}

// Counts keys, all with their values. `gaps` are allowed in the view of a secondary instance: it may find a log removed whose table is not in
// the manifest that it has read, also on other file systems.
unsigned Count(DB& db, bool gaps = false, size_t bytes = 200) {
  unsigned found = 0;
  unsigned next = 0;
  ReadOptions options;
  options.verify_checksums = true;
  std::unique_ptr<Iterator> all(db.NewIterator(options));
  for (all->SeekToFirst(); all->Valid(); all->Next()) {
    const unsigned number = static_cast<unsigned>(std::stoul(all->key().ToString()));
    CHECK(number == next || (gaps && number > next));
    CHECK(all->value().ToString() == Pattern(bytes, number));
    next = number + 1;
    ++found;
  }
  OK(all->status());
  return found;
}

void Fill(const std::string& uri, const std::string& path, bool sync, size_t bytes) {
  std::unique_ptr<Env> env;
  const auto db = OpenDb(uri, path, &env);
  WriteOptions options;
  options.sync = sync;
  for (unsigned number = Count(*db, false, bytes);; ++number) {
    OK(db->Put(options, Key(number), Pattern(bytes, number)));
    printf("%u\n", number);
    fflush(stdout);
  }
}

void Verify(const std::string& uri, const std::string& path, unsigned least, size_t bytes) {
  std::unique_ptr<Env> env;
  const auto db = OpenDb(uri, path, &env);
  const unsigned found = Count(*db, false, bytes);
  printf("%u\n", found);
  CHECK(found >= least);
  OK(db->VerifyChecksum());
}

void Follow(const std::string& uri, const std::string& path) {
  std::unique_ptr<Env> env;
  const auto db = OpenDb(uri, path, &env, "/secondary");
  const unsigned first = Count(*db, true);
  unsigned last = first;
  for (int round = 0; round < 600 && last < first + 1000; ++round) {
    OK(db->TryCatchUpWithPrimary());
    last = Count(*db, true);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  CHECK(last >= first + 1000);
  printf("%u to %u\n", first, last);
  // One that only reads has what there was when it was opened.
  Options options;
  options.env = env.get();
  DB* reading = nullptr;
  Status opened;
  // A log that it has listed may be gone when it comes to it, on any file system: then it is opened again.
  for (int tries = 0; tries < 20; ++tries) {
    opened = DB::OpenForReadOnly(options, path, &reading);
    if (!opened.IsPathNotFound()) {
      break;
    }
  }
  OK(opened);
  const std::unique_ptr<DB> alone(reading);
  CHECK(Count(*alone, true) >= first);
  CHECK(alone->Put(WriteOptions(), Key(0), "x").IsNotSupported());
}

struct Families {
  std::unique_ptr<Env> env;
  std::unique_ptr<DB> db;
  std::vector<ColumnFamilyHandle*> handles;

  ~Families() {
    for (ColumnFamilyHandle* handle : handles) {
      OK(db->DestroyColumnFamilyHandle(handle));
    }
  }
};

void OpenFamilies(Families& families, const std::string& uri, const std::string& path, const std::vector<std::string>& names) {
  families.env = NewCompositeEnv(Open(uri));
  Options options;
  options.create_if_missing = true;
  options.create_missing_column_families = true;
  options.env = families.env.get();
  options.write_buffer_size = 64 << 10;
  std::vector<ColumnFamilyDescriptor> wanted;
  for (const std::string& name : names) {
    wanted.emplace_back(name, ColumnFamilyOptions(options));
  }
  DB* db = nullptr;
  OK(DB::Open(DBOptions(options), path, wanted, &families.handles, &db));
  families.db.reset(db);
}

void ColumnFamilies(const std::string& uri, const std::string& path) {
  std::vector<std::string> names{kDefaultColumnFamilyName, "one", "two"};
  for (unsigned life = 0; life < 4; ++life) {
    Families families;
    OpenFamilies(families, uri, path, names);
    for (unsigned number = 0; number < 400; ++number) {
      for (size_t at = 0; at < names.size(); ++at) {
        std::string value;
        const Status found = families.db->Get(ReadOptions(), families.handles[at], Key(number), &value);
        CHECK(life == 0 ? found.IsNotFound() : found.ok() && value == Pattern(300 + at, life * 1000 + number));
      }
      WriteBatch batch;
      for (size_t at = 0; at < names.size(); ++at) {
        OK(batch.Put(families.handles[at], Key(number), Pattern(300 + at, (life + 1) * 1000 + number)));
      }
      OK(families.db->Write(WriteOptions(), &batch));
    }
    // The families' tables and the log they share are of different ages at the next opening.
    OK(families.db->Flush(FlushOptions(), families.handles[1 + life % 2]));
  }
  {
    Families families;
    OpenFamilies(families, uri, path, names);
    OK(families.db->DropColumnFamily(families.handles[1]));
  }
  names.erase(names.begin() + 1);
  Families families;
  OpenFamilies(families, uri, path, names);
  std::string value;
  OK(families.db->Get(ReadOptions(), families.handles[1], Key(7), &value));
  CHECK(value == Pattern(302, 4007));
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 2 ? argv[1] : "";
  if (mode == "calls") {
    const auto fs = Open(argv[2]);
    Names(*fs);
    Reads(*fs);
    Writes(*fs);
    Errors(argv[2]);
    Metrics(argv[2]);
  } else if (mode == "fill" && argc >= 5) {
    Fill(argv[2], argv[3], atoi(argv[4]) != 0, argc > 5 ? strtoul(argv[5], nullptr, 10) : 200);
  } else if (mode == "verify" && argc >= 5) {
    Verify(argv[2], argv[3], static_cast<unsigned>(atoi(argv[4])), argc > 5 ? strtoul(argv[5], nullptr, 10) : 200);
  } else if (mode == "follow" && argc == 4) {
    Follow(argv[2], argv[3]);
  } else if (mode == "families" && argc == 4) {
    ColumnFamilies(argv[2], argv[3]);
  } else if (mode == "full" && argc == 3) {
    Full(argv[2]);
  } else {
    fprintf(stderr, "see the head of contract.cc\n");
    return 2;
  }
  return 0;
}
