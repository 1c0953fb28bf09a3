//! Reports on the server: health and damage, metrics, status, the admin listener, the access log, the service manager.

pub(crate) mod access_log;
pub(crate) mod admin;
pub(crate) mod answers;
pub(crate) mod damage;
pub(crate) mod gauges;
pub(crate) mod health;
pub(crate) mod metrics;
pub(crate) mod notify;
pub(crate) mod ready;
pub(crate) mod status;
pub(crate) mod volumes;
