//! Agents that are programs: a subnet manager such as OpenSM, and whoever asks it something.
//!
//! Source: the kernel's `ib_user_mad.h` (agents are registered by class and methods) and `ib_mad` (the upper half of a transaction's number says
//! whose it is).
//! Modelled: requests go to the program on the device that has registered for them, and its answers to whoever asked; answers of several
//! datagrams (RMPP) are handed over whole. Not modelled: the datagrams on the wire, redirection.

use std::collections::BTreeMap;

use fabriscope_units::Time;

use super::{BY_LID, DIRECTED, Due, HEAD, HOSTS, Management, RESPONSE_BIT, SWITCH, head_word, set_word};

/// The manager's own attribute, which no adapter answers.
const SM_INFO: u16 = 0x20;
const TRAP: u8 = 0x05;
const TRAP_REPRESS: u8 = 0x07;
/// The key of queue pair 1.
const QKEY: u32 = 0x8001_0000;

/// What a program has registered for.
#[derive(Debug, Clone, Copy)]
struct Agent {
    open: u32,
    id: u32,
    class: u8,
    methods: u128,
}

/// A request that a program has been asked.
#[derive(Debug)]
struct Question {
    /// Who asked, and what it has in front of the datagram.
    open: u32,
    head: Vec<u8>,
    transaction: [u8; 8],
}

/// All agents that are programs.
#[derive(Debug, Default)]
pub(super) struct Agents {
    agents: Vec<Agent>,
    /// By the number that stands in the datagram.
    questions: BTreeMap<u32, Question>,
    next: u32,
}

impl Agents {
    pub fn leave(&mut self, open: u32) {
        self.agents.retain(|agent| agent.open != open);
        self.questions.retain(|_, question| question.open != open);
    }
    pub fn unregister(&mut self, open: u32, id: u32) {
        self.agents.retain(|agent| (agent.open, agent.id) != (open, id));
    }
}

impl Management {
    /// A program answers requests of a class, by the bits of the methods.
    pub fn register(&mut self, open: u32, (id, class): (u32, u8), methods: u128) {
        if methods != 0 {
            self.programs.agents.push(Agent { open, id, class, methods });
        }
    }

    /// The program on a device that answers such a datagram.
    fn program(&self, device: u32, mad: &[u8]) -> Option<Agent> {
        let (class, method) = (mad[1], mad[3]);
        let managed = matches!(class, BY_LID | DIRECTED);
        // Adapters answer for themselves whatever is not the manager's own.
        if managed && u16::from_be_bytes([mad[16], mad[17]]) != SM_INFO && !matches!(method, TRAP | TRAP_REPRESS) {
            return None;
        }
        let meant = |agent: &&Agent| agent.class == class && agent.methods >> (method & 0x7f) & 1 != 0;
        self.programs.agents.iter().filter(meant).find(|agent| self.opened.get(&agent.open) == Some(&device)).copied()
    }

    /// Hands a request to the program that answers it on `device`; false where there is none. `from` is the device that it comes from.
    pub(super) fn ask_program(&mut self, open: u32, now: Time, (from, device, hops): (u32, u32, u32), sent: &[u8]) -> bool {
        let Some(agent) = self.program(device, &sent[HEAD..]) else { return false };
        self.programs.next += 1;
        let number = self.programs.next;
        let mut bytes = sent.to_vec();
        let mut transaction = [0; 8];
        transaction.copy_from_slice(&sent[HEAD + 8..HEAD + 16]);
        bytes[HEAD + 8..HEAD + 12].copy_from_slice(&number.to_be_bytes());
        bytes[..HEAD].fill(0);
        set_word(&mut bytes, 0, agent.id);
        set_word(&mut bytes, 16, sent.len() as u32);
        let managed = matches!(sent[HEAD + 1], BY_LID | DIRECTED);
        bytes[20..24].copy_from_slice(&u32::from(!managed).to_be_bytes());
        bytes[24..28].copy_from_slice(&if managed { 0 } else { QKEY }.to_be_bytes());
        bytes[28..30].copy_from_slice(&self.lid(from).to_be_bytes());
        self.programs.questions.insert(number, Question { open, head: sent[..HEAD].to_vec(), transaction });
        let (timeout, tries) = (head_word(sent, 8), head_word(sent, 12) + 1);
        if timeout > 0 {
            let mut late = sent.to_vec();
            set_word(&mut late, 4, libc::ETIMEDOUT as u32);
            self.push(open, Due { waits_for: Some(number), ..Due::new(super::lost_at(now, timeout, tries), late) });
        }
        self.push(agent.open, Due::new(now + HOSTS + SWITCH * u64::from(hops), bytes));
        self.told = Some(agent.open);
        true
    }

    /// Takes the answer of a program to whoever asked; false where it is no answer to anybody's question.
    pub(super) fn answer_of_program(&mut self, now: Time, sent: &[u8]) -> bool {
        if sent[HEAD + 3] & RESPONSE_BIT == 0 && sent[HEAD + 3] != TRAP_REPRESS {
            return false;
        }
        let number = u32::from_be_bytes([sent[HEAD + 8], sent[HEAD + 9], sent[HEAD + 10], sent[HEAD + 11]]);
        let Some(question) = self.programs.questions.remove(&number) else { return false };
        let mut bytes = question.head;
        bytes.extend(&sent[HEAD..]);
        bytes[HEAD + 8..HEAD + 16].copy_from_slice(&question.transaction);
        set_word(&mut bytes, 4, 0);
        set_word(&mut bytes, 16, sent.len() as u32);
        if let Some(due) = self.answers.get_mut(&question.open) {
            due.retain(|due| due.waits_for != Some(number));
        }
        self.push(question.open, Due::new(now + HOSTS + SWITCH * 2, bytes));
        self.told = Some(question.open);
        true
    }
}
