//! Access control lists: everything is its owner's alone, which is S3's `private`. To ask for that succeeds; anything else is
//! not served.

use s3s::dto::*;
use s3s::{S3Request, S3Result, s3_error};

use super::{OWNER, Service, only_version, owner};
use crate::errors;

impl Service {
    pub(super) async fn get_bucket_acl(&self, request: S3Request<GetBucketAclInput>) -> S3Result<GetBucketAclOutput> {
        self.store.bucket(&request.input.bucket).await.map_err(errors::of_store)?;
        Ok(GetBucketAclOutput { grants: Some(grants()), owner: Some(owner()) })
    }

    pub(super) async fn get_object_acl(&self, request: S3Request<GetObjectAclInput>) -> S3Result<GetObjectAclOutput> {
        let input = request.input;
        only_version(input.version_id.as_deref())?;
        self.store.head(&input.bucket, &input.key).await.map_err(errors::of_store)?;
        Ok(GetObjectAclOutput { grants: Some(grants()), owner: Some(owner()), request_charged: None })
    }

    pub(super) async fn put_bucket_acl(&self, request: S3Request<PutBucketAclInput>) -> S3Result<PutBucketAclOutput> {
        let input = request.input;
        stays_private(input.acl.is_some(), input.access_control_policy.as_ref())?;
        self.store.bucket(&input.bucket).await.map_err(errors::of_store)?;
        Ok(PutBucketAclOutput {})
    }

    pub(super) async fn put_object_acl(&self, request: S3Request<PutObjectAclInput>) -> S3Result<PutObjectAclOutput> {
        let input = request.input;
        only_version(input.version_id.as_deref())?;
        stays_private(input.acl.is_some(), input.access_control_policy.as_ref())?;
        self.store.head(&input.bucket, &input.key).await.map_err(errors::of_store)?;
        Ok(PutObjectAclOutput { request_charged: None })
    }
}

/// All rights to the owner.
fn grants() -> Vec<Grant> {
    let Owner { display_name, id } = owner();
    let grantee =
        Grantee { display_name, email_address: None, id, type_: Type::from_static(Type::CANONICAL_USER), uri: None };
    let permission = Permission::from_static(Permission::FULL_CONTROL);
    vec![Grant { grantee: Some(grantee), permission: Some(permission) }]
}

/// # Errors
/// `NotImplemented` for a list that is not the private one, `MissingSecurityHeader` for none at all. (Canned lists other than
/// the private ones were refused before.)
fn stays_private(canned: bool, policy: Option<&AccessControlPolicy>) -> S3Result<()> {
    let Some(policy) = policy else {
        let missing = || s3_error!(MissingSecurityHeader, "Your request has neither x-amz-acl nor a list in its body.");
        return if canned { Ok(()) } else { Err(missing()) };
    };
    let is_owners = |grant: &Grant| {
        let grantee = grant.grantee.as_ref().and_then(|grantee| grantee.id.as_deref());
        grantee == Some(OWNER)
            && grant.permission.as_ref().is_some_and(|right| right.as_str() == Permission::FULL_CONTROL)
    };
    match policy.grants.as_deref() {
        Some(grants) if !canned && !grants.is_empty() && grants.iter().all(is_owners) => Ok(()),
        _ => Err(s3_error!(NotImplemented, "only the private access control list is served: {OWNER} has FULL_CONTROL")),
    }
}
