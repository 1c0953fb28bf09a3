//! Stores that hand calls on to another one: the calls' signatures stand here once for all of them.

/// Methods of an [`ObjectStore`](crate::ObjectStore) that go to another store, for use in its `impl`: those that are named, or `all`.
///
/// `by_reference |this| expression` hands them to the store that the expression borrows from `this`, at no cost.
/// `if_open |this| expression` hands them to a store that may not be there: the expression is a `StoreResult` of something that
/// dereferences to it, and is evaluated when the call begins.
#[macro_export]
macro_rules! forward {
    ($how:ident |$this:ident| $to:expr; all) => {
        $crate::forward!($how |$this| $to; create_bucket delete_bucket bucket list_buckets begin_put head open delete_if list
            begin_upload begin_part upload list_parts list_uploads complete_upload abort_upload usage);
    };
    ($how:ident |$this:ident| $to:expr; $($call:ident)*) => {
        $($crate::forward!(@$call $how |$this| $to);)*
    };

    (@create_bucket $($to:tt)*) => { $crate::forward!(create_bucket(bucket)() -> $crate::BucketInfo, $($to)*); };
    (@delete_bucket $($to:tt)*) => { $crate::forward!(delete_bucket(bucket)() -> (), $($to)*); };
    (@bucket $($to:tt)*) => { $crate::forward!(bucket(bucket)() -> $crate::BucketInfo, $($to)*); };
    (@list_buckets $($to:tt)*) => { $crate::forward!(list_buckets()() -> Vec<$crate::BucketInfo>, $($to)*); };
    (@begin_put $($to:tt)*) => {
        $crate::forward!(begin_put(bucket key)() -> Box<dyn $crate::ObjectWriter>, $($to)*);
    };
    (@head $($to:tt)*) => { $crate::forward!(head(bucket key)() -> $crate::ObjectInfo, $($to)*); };
    (@open $($to:tt)*) => { $crate::forward!(open(bucket key)() -> Box<dyn $crate::ObjectReader>, $($to)*); };
    (@delete_if $($to:tt)*) => {
        $crate::forward!(delete_if(bucket key)(condition: $crate::Condition) -> bool, $($to)*);
    };
    (@list $($to:tt)*) => {
        $crate::forward!(list(bucket)(request: $crate::ListRequest) -> $crate::Listing, $($to)*);
    };
    (@begin_upload $($to:tt)*) => {
        $crate::forward!(begin_upload(bucket key)(metadata: $crate::Metadata) -> $crate::UploadInfo, $($to)*);
    };
    (@begin_part $($to:tt)*) => {
        $crate::forward!(begin_part(bucket key)(id: $crate::UploadId, number: u32) -> Box<dyn $crate::ObjectWriter>, $($to)*);
    };
    (@upload $($to:tt)*) => {
        $crate::forward!(upload(bucket key)(id: $crate::UploadId) -> $crate::UploadInfo, $($to)*);
    };
    (@list_parts $($to:tt)*) => {
        $crate::forward!(
            list_parts(bucket key)(id: $crate::UploadId, after: u32, limit: usize) -> (Vec<$crate::PartInfo>, bool), $($to)*
        );
    };
    (@list_uploads $($to:tt)*) => {
        $crate::forward!(
            list_uploads(bucket prefix)(after: Option<(String, Option<$crate::UploadId>)>, limit: usize) -> $crate::UploadListing,
            $($to)*
        );
    };
    (@complete_upload $($to:tt)*) => {
        $crate::forward!(
            complete_upload(bucket key)(id: $crate::UploadId, parts: Vec<$crate::CompletedPart>, commit: $crate::Commit)
                -> $crate::ObjectInfo,
            $($to)*
        );
    };
    (@abort_upload $($to:tt)*) => { $crate::forward!(abort_upload(bucket key)(id: $crate::UploadId) -> (), $($to)*); };
    (@usage $($to:tt)*) => { $crate::forward!(usage()() -> $crate::StoreUsage, $($to)*); };

    ($call:ident($($name:ident)*)($($value:ident: $type:ty),*) -> $answer:ty, by_reference |$this:ident| $to:expr) => {
        fn $call(&self, $($name: &str,)* $($value: $type),*) -> $crate::StoreFuture<'_, $answer> {
            let $this = self;
            $crate::ObjectStore::$call($to, $($name,)* $($value),*)
        }
    };
    ($call:ident($($name:ident)*)($($value:ident: $type:ty),*) -> $answer:ty, if_open |$this:ident| $to:expr) => {
        fn $call(&self, $($name: &str,)* $($value: $type),*) -> $crate::StoreFuture<'_, $answer> {
            $(let $name = $name.to_owned();)*
            Box::pin(async move {
                let $this = self;
                let store = $to?;
                $crate::ObjectStore::$call(&*store, $(&$name,)* $($value),*).await
            })
        }
    };
}
