// What the tests of RocksDB's file system have in common.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "rocksdb/convenience.h"
#include "rocksdb/file_system.h"

using namespace rocksdb;

inline void Fail(const char* file, int line, const std::string& what) {
  fprintf(stderr, "%s:%d: %s\n", file, line, what.c_str());
  exit(1);
}

#define CHECK(condition) \
  if (!(condition)) Fail(__FILE__, __LINE__, #condition)
#define OK(call)                                                                     \
  do {                                                                               \
    const Status status_ = (call);                                                   \
    if (!status_.ok()) Fail(__FILE__, __LINE__, #call ": " + status_.ToString());    \
  } while (false)

inline const IOOptions kIo;
inline const FileOptions kFile;

inline std::shared_ptr<FileSystem> Open(const std::string& uri) {
  std::shared_ptr<FileSystem> fs;
  OK(FileSystem::CreateFromString(ConfigOptions(), uri, &fs));
  CHECK(fs != nullptr);
  return fs;
}

inline std::string Pattern(size_t length, unsigned seed) {
  std::string bytes(length, '\0');
  for (size_t at = 0; at < length; ++at) {
    bytes[at] = static_cast<char>((at / 7 + at / 4096) ^ seed);
  }
  return bytes;
}

inline void Put(FileSystem& fs, const std::string& path, const std::string& bytes) {
  std::unique_ptr<FSWritableFile> file;
  OK(fs.NewWritableFile(path, kFile, &file, nullptr));
  OK(file->Append(bytes, kIo, nullptr));
  CHECK(file->GetFileSize(kIo, nullptr) == bytes.size());
  OK(file->Sync(kIo, nullptr));
  OK(file->Close(kIo, nullptr));
  CHECK(file->GetFileSize(kIo, nullptr) == bytes.size());
  CHECK(file->Append("late", kIo, nullptr).IsIOError());
  OK(file->Close(kIo, nullptr));
}

inline std::string Get(FileSystem& fs, const std::string& path) {
  std::unique_ptr<FSSequentialFile> file;
  OK(fs.NewSequentialFile(path, kFile, &file, nullptr));
  std::string all;
  std::vector<char> scratch(70001);
  for (;;) {
    Slice piece;
    OK(file->Read(scratch.size(), kIo, &piece, scratch.data(), nullptr));
    if (piece.empty()) {
      return all;
    }
    all.append(piece.data(), piece.size());
  }
}

inline std::string Key(unsigned number) {
  char key[16];
  snprintf(key, sizeof(key), "%010u", number);
  return key;
}
