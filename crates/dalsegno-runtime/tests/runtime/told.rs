//! What users, tools and operators are told: what tools say, on whose behalf they are called, and what a workspace consists of.

mod caller;
mod documents;
mod engine_tools;
mod live;
mod notes;
mod said;
mod tenants;
