// Makes `shingle://...` a name of a file system for every program that loads this library.

#include <memory>
#include <string>

#include "file_system.h"
#include "rocksdb/utilities/object_registry.h"

namespace shingle {
namespace {

rocksdb::FileSystem* Make(const std::string& uri, std::unique_ptr<rocksdb::FileSystem>* guard, std::string* error) {
  const rocksdb::IOStatus opened = FileSystem::Open(uri, guard);
  if (!opened.ok()) {
    *error = opened.ToString();
    return nullptr;
  }
  return guard->get();
}

// Runs when the library is loaded, also by LD_PRELOAD.
const bool registered = [] {
  rocksdb::ObjectLibrary::Default()->AddFactory<rocksdb::FileSystem>(
      rocksdb::ObjectLibrary::PatternEntry("shingle", false).AddSeparator("://", false), Make);
  return true;
}();

}  // namespace
}  // namespace shingle
