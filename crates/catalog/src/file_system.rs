//! A file system with the parts that it names.

use crate::catalog::Catalog;
use crate::copy_on_write::Shared;
use crate::error::CatalogError;
use crate::part::{Controller, Cpu, Drive, FileSystem, LinkSpeed, Lustre, Servers};

/// Servers of one role with their parts.
#[derive(Clone, Debug, PartialEq)]
pub struct ResolvedServers {
    /// Servers.
    pub servers: u32,
    /// Targets of each.
    pub targets: u32,
    /// Drives of a target.
    pub drives: u32,
    /// Those of them that hold parity, or copies.
    pub parity: u32,
    /// The drive.
    pub drive: Shared<Drive>,
    /// The speed of an adapter.
    pub link: LinkSpeed,
    /// Adapters of a server.
    pub adapters: u32,
    /// The processor.
    pub cpu: Shared<Cpu>,
    /// Processors of a server.
    pub sockets: u32,
    /// What lies between a server and its drives.
    pub controller: Option<Controller>,
}

/// A file system with the parts that it names.
#[derive(Clone, Debug, PartialEq)]
pub struct ResolvedFileSystem {
    /// As its file has it.
    pub part: FileSystem,
    /// The release.
    pub lustre: Lustre,
    /// Servers of data.
    pub oss: ResolvedServers,
    /// Servers of metadata.
    pub mds: ResolvedServers,
    /// Routers, the speed of one of their adapters, how many of those there are in all.
    pub routers: Option<(LinkSpeed, u32)>,
    /// Cables to the fabric of the clients, and how many.
    pub uplinks: Option<(LinkSpeed, u32)>,
}

impl Catalog {
    /// The file system of that name, with its parts.
    ///
    /// # Errors
    /// It or one of its parts does not exist.
    pub fn resolve_file_system(&self, name: &str) -> Result<ResolvedFileSystem, CatalogError> {
        self.with_parts(self.file_system(name)?)
    }

    /// Reads the text of a file system that is not of the catalogue; `file` is what messages call it.
    ///
    /// # Errors
    /// Whatever is wrong with it.
    pub fn parse_file_system(&self, name: &str, file: &str, text: &str) -> Result<ResolvedFileSystem, CatalogError> {
        match self.parse_part_in(crate::Kind::FileSystem, name, file, text)? {
            crate::AnyPart::FileSystem(part) => self.with_parts(&part),
            other => Err(CatalogError::UnknownPart { kind: other.kind(), name: name.to_owned(), help: String::new() }),
        }
    }

    /// A file system with the parts that it names.
    ///
    /// # Errors
    /// One of them does not exist, or its software is no release of Lustre.
    pub fn with_parts(&self, part: &FileSystem) -> Result<ResolvedFileSystem, CatalogError> {
        let software = self.software(&part.software)?;
        let lustre = software.lustre.clone().ok_or_else(|| CatalogError::UnknownPart {
            kind: crate::Kind::Software,
            name: part.software.clone(),
            help: "take a release of Lustre, for example lustre-2.15: fabriscope parts --kind software".to_owned(),
        })?;
        let routers = match &part.routers {
            None => None,
            Some(routers) => Some((self.link(&routers.link)?.clone(), routers.routers.value.saturating_mul(*routers.adapters))),
        };
        let uplinks = match &part.uplinks {
            None => None,
            Some(uplinks) => Some((self.link(&uplinks.link)?.clone(), *uplinks.cables)),
        };
        let (oss, mds) = (self.servers(&part.oss)?, self.servers(&part.mds)?);
        Ok(ResolvedFileSystem { part: part.clone(), lustre, oss, mds, routers, uplinks })
    }

    fn servers(&self, part: &Servers) -> Result<ResolvedServers, CatalogError> {
        Ok(ResolvedServers {
            servers: *part.servers,
            targets: *part.targets,
            drives: *part.drives,
            parity: *part.parity,
            drive: self.drive(&part.drive)?.clone(),
            link: self.link(&part.link)?.clone(),
            adapters: *part.adapters,
            cpu: self.cpu(&part.cpu)?.clone(),
            sockets: part.sockets,
            controller: part.controller.clone(),
        })
    }
}
