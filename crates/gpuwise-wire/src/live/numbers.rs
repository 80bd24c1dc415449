//! Numbers by which a fleet's things are known, times, and lasting ids.

use crate::mirror::Mirror;
use gpuwise_domain::placement::{
    Attempt, DomainId, GpuId, IslandId, JobId, KindId, Kinds, NodeId, PoolId, QueueId, Uid,
};
use gpuwise_units::Nanoseconds;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de, de::Visitor};
use std::{borrow::Cow, fmt};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{
        RefOr,
        schema::{ArrayBuilder, ObjectBuilder, OneOfBuilder, Schema, Type},
    },
};

macro_rules! number {
    ($($(#[$doc:meta])* $name:ident($inner:ty) = $noun:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
        pub struct $name(pub(crate) $inner);

        impl Mirror for $name {
            type Noun = $noun;
            fn of(noun: &$noun) -> Self {
                Self(noun.0)
            }
            fn noun(self) -> $noun {
                $noun(self.0)
            }
        }
    )*};
}

number! {
    /// A node by its place in the fleet's list.
    NodeNumber(u32) = NodeId;
    /// A GPU by its place in the fleet's list.
    GpuNumber(u32) = GpuId;
    /// A kind of GPU by its place in the fleet's list.
    KindNumber(u32) = KindId;
    /// A rack, block or zone by its place in the fleet's list.
    DomainNumber(u32) = DomainId;
    /// An island of NVLink or its like by its place in the fleet's list.
    IslandNumber(u32) = IslandId;
    /// A fabric pool by its place in the fleet's list.
    PoolNumber(u32) = PoolId;
    /// A queue by its place in the fleet's list.
    QueueNumber(u32) = QueueId;
    /// A job's number.
    JobNumber(u32) = JobId;
    /// Which try of an action: its place among all actions that were begun, from 1; 0: whichever is under
    /// way.
    AttemptNumber(u64) = Attempt;
    /// Nanoseconds: a span, or a moment counted from the fleet's beginning.
    Time(u64) = Nanoseconds;
}

/// What a node or a GPU is called for as long as it exists; empty: not known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UidText(String);

impl Mirror for UidText {
    type Noun = Uid;
    fn of(noun: &Uid) -> Self {
        Self(noun.as_str().into())
    }
    fn noun(self) -> Uid {
        self.0.into()
    }
}

/// A name that programs give and people read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NameText(String);

impl Mirror for NameText {
    type Noun = Cow<'static, str>;
    fn of(noun: &Self::Noun) -> Self {
        Self(noun.clone().into_owned())
    }
    fn noun(self) -> Self::Noun {
        Cow::Owned(self.0)
    }
}

/// Kinds of GPU: a list of their numbers, or `"any"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KindSet(Kinds);

impl Mirror for KindSet {
    type Noun = Kinds;
    fn of(noun: &Kinds) -> Self {
        Self(*noun)
    }
    fn noun(self) -> Kinds {
        self.0
    }
}

impl Serialize for KindSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0 == Kinds::ANY {
            serializer.serialize_str("any")
        } else {
            serializer.collect_seq(self.0.iter().map(|kind| kind.0))
        }
    }
}

impl<'de> Deserialize<'de> for KindSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(KindSetVisitor)
    }
}

struct KindSetVisitor;

impl<'de> Visitor<'de> for KindSetVisitor {
    type Value = KindSet;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("numbers of kinds of GPU, 0 to 63, or \"any\"")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<KindSet, E> {
        match text {
            "any" => Ok(KindSet(Kinds::ANY)),
            _ => Err(E::invalid_value(de::Unexpected::Str(text), &self)),
        }
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut list: A) -> Result<KindSet, A::Error> {
        let mut kinds = Kinds::NONE;
        while let Some(kind) = list.next_element::<u32>()? {
            if kind as usize >= Kinds::MOST {
                let found = de::Unexpected::Unsigned(kind.into());
                return Err(de::Error::invalid_value(found, &self));
            }
            kinds = kinds.with(KindId(kind));
        }
        Ok(KindSet(kinds))
    }
}

impl PartialSchema for KindSet {
    fn schema() -> RefOr<Schema> {
        let any = ObjectBuilder::new()
            .schema_type(Type::String)
            .enum_values(Some(["any"]));
        let number = ObjectBuilder::new()
            .schema_type(Type::Integer)
            .minimum(Some(0))
            .maximum(Some(63));
        OneOfBuilder::new()
            .item(any)
            .item(ArrayBuilder::new().items(number))
            .description(Some("Kinds of GPU: a list of their numbers, or \"any\"."))
            .into()
    }
}

impl ToSchema for KindSet {}
