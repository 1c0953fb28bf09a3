// Ordered keys in RocksDB, on files that the caller serves: a translation of calls, and nothing else. (Dissertation, section 5.7.1.)
#include "shingle/keys.h"

#include <cstring>
#include <memory>
#include <string>

#include "file_system.h"
#include "rocksdb/cache.h"
#include "rocksdb/db.h"
#include "rocksdb/env.h"
#include "rocksdb/filter_policy.h"
#include "rocksdb/merge_operator.h"
#include "rocksdb/table.h"
#include "rocksdb/write_batch.h"

// Members are destroyed from the last to the first: the database before what it stands on.
struct shingle_keys {
  std::unique_ptr<rocksdb::Env> env;
  std::unique_ptr<rocksdb::DB> db;
};

namespace {

using rocksdb::Slice;
using rocksdb::Status;

constexpr size_t kHead = 9;
// Bits of a filter for each key: one in a hundred reads of a key that is not there looks at a table in vain.
constexpr double kFilterBits = 10;
// Input of a compaction, in tables: it needs as much room again while it runs.
constexpr uint64_t kCompactedTables = 8;

Slice Of(const void* bytes, size_t length) { return Slice(static_cast<const char*>(bytes), length); }

void Assign(void* context, const void* bytes, size_t length) { static_cast<std::string*>(context)->assign(static_cast<const char*>(bytes), length); }

class Merge : public rocksdb::MergeOperator {
 public:
  Merge(shingle_merge merge, void* operators) : merge_(merge), operators_(operators) {}

  const char* Name() const override { return "shingle.keys"; }

  bool FullMergeV2(const MergeOperationInput& in, MergeOperationOutput* out) const override {
    const Slice* before = in.existing_value;
    std::string value;
    std::string next;
    Slice held;
    for (const Slice& operand : in.operand_list) {
      next.clear();
      const void* bytes = before == nullptr ? nullptr : before->data();
      merge_(operators_, in.key.data(), in.key.size(), bytes, before == nullptr ? 0 : before->size(), operand.data(), operand.size(), Assign, &next);
      value.swap(next);
      held = Slice(value);
      before = &held;
    }
    out->new_value = std::move(value);
    return true;
  }

 private:
  const shingle_merge merge_;
  void* const operators_;
};

int NumberOf(const Status& status, char** message) {
  if (status.ok()) {
    return SHINGLE_OK;
  }
  if (message != nullptr) {
    const std::string text = status.ToString();
    // Freed by shingle_string_free.
    *message = shingle_string_new(text.c_str());
  }
  if (status.IsNotFound()) {
    return SHINGLE_NOT_FOUND;
  }
  if (status.IsNoSpace()) {
    return SHINGLE_NO_SPACE;
  }
  if (status.IsCorruption()) {
    return SHINGLE_CORRUPT;
  }
  if (status.IsInvalidArgument() || status.IsNotSupported()) {
    return SHINGLE_INVALID;
  }
  return status.IsIOError() ? SHINGLE_DEVICE : SHINGLE_UNAVAILABLE;
}

rocksdb::Options OptionsOf(const shingle_keys_options& given, rocksdb::Env* env) {
  rocksdb::Options options;
  options.env = env;
  options.create_if_missing = !given.read_only;
  options.merge_operator = std::make_shared<Merge>(given.merge, given.operators);
  // A log may end anywhere; damage before its end is none of a power cut's, and refuses the opening.
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
  options.paranoid_checks = true;
  options.write_buffer_size = given.buffer_bytes;
  options.max_write_buffer_number = 3;
  options.target_file_size_base = given.table_bytes;
  options.max_bytes_for_level_base = 4 * given.table_bytes;
  options.max_compaction_bytes = kCompactedTables * given.table_bytes;
  options.level_compaction_dynamic_level_bytes = true;
  options.compression = rocksdb::kNoCompression;
  options.max_open_files = 512;
  options.keep_log_file_num = 2;
  options.info_log_level = rocksdb::InfoLogLevel::WARN_LEVEL;
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = rocksdb::NewLRUCache(given.cache_bytes);
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(kFilterBits, false));
  table.cache_index_and_filter_blocks = true;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return options;
}

uint32_t Number(const unsigned char* bytes) {
  return static_cast<uint32_t>(bytes[0]) | static_cast<uint32_t>(bytes[1]) << 8 | static_cast<uint32_t>(bytes[2]) << 16 |
         static_cast<uint32_t>(bytes[3]) << 24;
}

Status Add(rocksdb::WriteBatch* batch, unsigned char kind, const Slice& key, const Slice& value) {
  switch (kind) {
    case 0:
      return batch->Put(key, value);
    case 1:
      return batch->Delete(key);
    case 2:
      return batch->DeleteRange(key, value);
    case 3:
      return batch->Merge(key, value);
    default:
      return Status::InvalidArgument("a change of an unknown kind");
  }
}

Status Decode(const unsigned char* bytes, size_t length, rocksdb::WriteBatch* batch) {
  while (length > 0) {
    if (length < kHead) {
      return Status::InvalidArgument("changes are cut short");
    }
    const size_t key = Number(bytes + 1);
    const size_t value = Number(bytes + 5);
    if (length - kHead < key || length - kHead - key < value) {
      return Status::InvalidArgument("changes are cut short");
    }
    const Status added = Add(batch, bytes[0], Of(bytes + kHead, key), Of(bytes + kHead + key, value));
    if (!added.ok()) {
      return added;
    }
    bytes += kHead + key + value;
    length -= kHead + key + value;
  }
  return Status::OK();
}

Status Open(const shingle_keys_options& given, std::unique_ptr<shingle_keys>* result) {
  std::unique_ptr<rocksdb::FileSystem> files;
  Status status = shingle::FileSystem::OnSocket(given.socket, &files);
  if (!status.ok()) {
    return status;
  }
  auto keys = std::make_unique<shingle_keys>();
  keys->env = rocksdb::NewCompositeEnv(std::shared_ptr<rocksdb::FileSystem>(std::move(files)));
  const rocksdb::Options options = OptionsOf(given, keys->env.get());
  rocksdb::DB* db = nullptr;
  status = given.read_only ? rocksdb::DB::OpenForReadOnly(options, given.path, &db) : rocksdb::DB::Open(options, given.path, &db);
  keys->db.reset(db);
  if (status.ok()) {
    *result = std::move(keys);
  }
  return status;
}

}  // namespace

uint32_t shingle_keys_version(void) { return SHINGLE_KEYS_VERSION; }

int shingle_keys_open(const shingle_keys_options* options, shingle_keys** keys, char** message) {
  std::unique_ptr<shingle_keys> opened;
  const Status status = Open(*options, &opened);
  *keys = opened.release();
  return NumberOf(status, message);
}

int shingle_keys_get(shingle_keys* keys, const void* key, size_t key_length, shingle_bytes value, void* context, char** message) {
  rocksdb::PinnableSlice found;
  const Status status = keys->db->Get(rocksdb::ReadOptions(), keys->db->DefaultColumnFamily(), Of(key, key_length), &found);
  if (status.ok()) {
    value(context, found.data(), found.size());
  }
  return NumberOf(status, message);
}

int shingle_keys_scan(shingle_keys* keys, const void* from, size_t from_length, const void* to, size_t to_length, bool backward, size_t limit,
                      shingle_bytes pair, void* context, char** message) {
  const Slice first = Of(from, from_length);
  const Slice end = Of(to, to_length);
  rocksdb::ReadOptions options;
  options.iterate_lower_bound = &first;
  options.iterate_upper_bound = &end;
  const std::unique_ptr<rocksdb::Iterator> at(keys->db->NewIterator(options));
  if (backward) {
    at->SeekToLast();
  } else {
    at->Seek(first);
  }
  for (size_t count = 0; count < limit && at->Valid(); ++count) {
    pair(context, at->key().data(), at->key().size());
    pair(context, at->value().data(), at->value().size());
    if (backward) {
      at->Prev();
    } else {
      at->Next();
    }
  }
  return NumberOf(at->status(), message);
}

int shingle_keys_write(shingle_keys* keys, const void* changes, size_t length, char** message) {
  rocksdb::WriteBatch batch;
  Status status = Decode(static_cast<const unsigned char*>(changes), length, &batch);
  if (status.ok()) {
    rocksdb::WriteOptions options;
    options.sync = true;
    status = keys->db->Write(options, &batch);
  }
  return NumberOf(status, message);
}

void shingle_keys_close(shingle_keys* keys) { delete keys; }
