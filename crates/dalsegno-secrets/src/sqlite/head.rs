//! The row that says which store this is, and holds its wrapped data key.

use rusqlite::{Connection, OptionalExtension};

use super::list;
use super::rows::blob;
use crate::seal::{About, Cipher, KEY_BYTES, KeyBytes, Sealed, TAG_BYTES, random, random_key};
use crate::{DamagedPart, KeyId, MasterKey, SecretError};

/// The head as it was read. Nothing in it is to be trusted before it is opened.
pub(super) struct Head {
    pub(super) store: [u8; 16],
    pub(super) key: KeyId,
    data_key: Sealed,
    /// Attests the list of tenants.
    pub(super) seal: Sealed,
}

impl Head {
    /// Writes the head of a new store without tenants.
    pub(super) fn create(connection: &Connection, master: &MasterKey) -> Result<(), SecretError> {
        let (store, data_key) = (random()?, random_key()?);
        let seal = Cipher::new(&data_key).seal(&list::no_tenants(&store), b"")?;
        let data_key = wrap(&store, &data_key, master)?;
        Self { store, key: master.id(), data_key, seal }.write(connection)
    }

    pub(super) fn read(connection: &Connection) -> Result<Self, SecretError> {
        let sql = "SELECT id, key_id, key_nonce, data_key, nonce, seal FROM store";
        let head = connection
            .prepare_cached(sql)?
            .query_row([], |row| {
                let blob = |index| blob::<{ KEY_BYTES + TAG_BYTES }>(row, index).ok();
                Ok((|| {
                    Some(Self {
                        store: blob(0)?.try_into().ok()?,
                        key: KeyId::from_bytes(blob(1)?.try_into().ok()?),
                        data_key: Sealed { nonce: blob(2)?.try_into().ok()?, bytes: blob(3)? },
                        seal: Sealed { nonce: blob(4)?.try_into().ok()?, bytes: blob(5)? },
                    })
                })())
            })
            .optional()?;
        head.flatten().ok_or(SecretError::Damaged { part: DamagedPart::Head })
    }

    pub(super) fn write(&self, connection: &Connection) -> Result<(), SecretError> {
        let sql = "INSERT OR REPLACE INTO store (one, id, key_id, key_nonce, data_key, nonce, seal) \
                   VALUES (1, ?1, ?2, ?3, ?4, ?5, ?6)";
        connection.prepare_cached(sql)?.execute((
            &self.store[..],
            &self.key.as_bytes()[..],
            &self.data_key.nonce[..],
            &self.data_key.bytes,
            &self.seal.nonce[..],
            &self.seal.bytes,
        ))?;
        Ok(())
    }

    /// Opens the data key.
    pub(super) fn data_key(&self, master: &MasterKey) -> Result<KeyBytes, SecretError> {
        let about = about(&self.store, master.id());
        let opened = master.wrapper().open(&about, self.data_key.clone());
        let damaged = SecretError::Damaged { part: DamagedPart::Head };
        match opened {
            Some(bytes) if self.key == master.id() && bytes.len() == KEY_BYTES => {
                let mut key = KeyBytes::default();
                key.copy_from_slice(&bytes);
                Ok(key)
            }
            // The key is right, whatever the row says about it.
            Some(_) => Err(damaged),
            None if self.key == master.id() => Err(damaged),
            None => Err(SecretError::WrongKey { expected: self.key, given: master.id() }),
        }
    }

    /// Wraps a data key with another master key.
    pub(super) fn rewrap(&mut self, data_key: &KeyBytes, master: &MasterKey) -> Result<(), SecretError> {
        self.data_key = wrap(&self.store, data_key, master)?;
        self.key = master.id();
        Ok(())
    }
}

fn wrap(store: &[u8; 16], data_key: &KeyBytes, master: &MasterKey) -> Result<Sealed, SecretError> {
    Ok(master.wrapper().seal(&about(store, master.id()), &**data_key)?)
}

fn about(store: &[u8; 16], key: KeyId) -> About {
    About::new("data key", store).bytes(key.as_bytes())
}
