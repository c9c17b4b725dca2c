use super::*;
use crate::access::Access;
use crate::attr::{AhAttr, QpCap, QpInit};
use crate::ids::{CqId, PdId, QpNum};
use fabriscope_wire::{LinkLayer, Mtu};

fn qp(qp_type: QpType) -> (Qp, Port) {
    let init = QpInit { cap: QpCap::default(), ..QpInit::new(PdId(0), qp_type, CqId(0)) };
    (Qp::new(QpNum(2), 0, &init), Port::new(Lid(1), LinkLayer::InfiniBand))
}

/// The attributes that lead a queue pair through its life.
fn steps(qp_type: QpType) -> [QpAttr; 3] {
    let av = AhAttr { dlid: Lid(2), sl: 3 };
    match qp_type {
        QpType::Rc => [QpAttr::init(Access::ALL), QpAttr::rtr_rc(Mtu::B1024, QpNum(9), 5, av), QpAttr::rts_rc(6)],
        QpType::Uc => [QpAttr::init(Access::ALL), QpAttr::rtr_uc(Mtu::B1024, QpNum(9), 5, av), QpAttr::rts(6)],
        _ => [QpAttr::init_ud(7), QpAttr::rtr_ud(), QpAttr::rts(6)],
    }
}

const TYPES: [QpType; 3] = [QpType::Rc, QpType::Uc, QpType::Ud];

#[test]
fn the_way_to_rts() {
    for qp_type in TYPES {
        let (mut qp, mut port) = qp(qp_type);
        for (attr, state) in steps(qp_type).iter().zip([QpState::Init, QpState::Rtr, QpState::Rts]) {
            qp.modify(attr, Lid(1), &mut port).unwrap();
            assert_eq!(qp.state, state);
        }
        assert_eq!(qp.requester.next_psn, Psn::new(6));
        if qp_type != QpType::Ud {
            assert_eq!((qp.dest, qp.sl, qp.dest_qp, qp.mtu()), (Lid(2), 3, 9, 1024));
            assert_eq!(qp.responder.expected, Psn::new(5));
        }
    }
}

/// The transitions between any two states, as the state diagram has them: `x` is one.
#[test]
fn transitions() {
    use QpState::{Err, Init, Reset, Rtr, Rts, Sqd, Sqe};
    let states = [Reset, Init, Rtr, Rts, Sqd, Sqe, Err];
    let table = |qp_type| {
        let cell = |from, to| if row(qp_type, from, to).is_some() { 'x' } else { '.' };
        states.map(|from| states.map(|to| cell(from, to)).iter().collect::<String>()).join("\n")
    };
    //                    to  RESET INIT RTR RTS SQD SQE ERR
    let reliable = ["xx....x", "xxx...x", "x..x..x", "x..xx.x", "x..xx.x", "x.....x", "x.....x"].join("\n");
    let unreliable = ["xx....x", "xxx...x", "x..x..x", "x..xx.x", "x..xx.x", "x..x..x", "x.....x"].join("\n");
    assert_eq!(table(QpType::Rc), reliable);
    assert_eq!(table(QpType::Uc), unreliable);
    assert_eq!(table(QpType::Ud), unreliable);
}

/// Each attribute a transition needs is missed by name, and nothing changes.
#[test]
fn missing_attributes() {
    let needed = |qp_type| {
        let (mut qp, mut port) = qp(qp_type);
        let mut names = Vec::new();
        for attr in steps(qp_type) {
            let mut partial = QpAttr { qp_state: attr.qp_state, ..QpAttr::default() };
            let before = qp.state;
            while let Result::Err(VerbsError::MissingAttribute { attribute, .. }) = qp.modify(&partial, Lid(1), &mut port) {
                assert_eq!(qp.state, before);
                names.push(attribute);
                give(attribute, &attr, &mut partial);
            }
            names.push("|");
        }
        names.join(" ")
    };
    assert_eq!(
        needed(QpType::Rc),
        "pkey_index port_num qp_access_flags | av path_mtu dest_qp_num rq_psn max_dest_rd_atomic min_rnr_timer \
         | sq_psn max_rd_atomic timeout retry_cnt rnr_retry |"
    );
    assert_eq!(needed(QpType::Uc), "pkey_index port_num qp_access_flags | av path_mtu dest_qp_num rq_psn | sq_psn |");
    assert_eq!(needed(QpType::Ud), "pkey_index port_num qkey | | sq_psn |");
}

/// Copies one attribute by name.
fn give(attribute: &str, from: &QpAttr, to: &mut QpAttr) {
    match attribute {
        "pkey_index" => to.pkey_index = from.pkey_index,
        "port_num" => to.port_num = from.port_num,
        "qp_access_flags" => to.qp_access_flags = from.qp_access_flags,
        "qkey" => to.qkey = from.qkey,
        "av" => to.av = from.av,
        "path_mtu" => to.path_mtu = from.path_mtu,
        "dest_qp_num" => to.dest_qp_num = from.dest_qp_num,
        "rq_psn" => to.rq_psn = from.rq_psn,
        "sq_psn" => to.sq_psn = from.sq_psn,
        "max_dest_rd_atomic" => to.max_dest_rd_atomic = from.max_dest_rd_atomic,
        "min_rnr_timer" => to.min_rnr_timer = from.min_rnr_timer,
        "max_rd_atomic" => to.max_rd_atomic = from.max_rd_atomic,
        "timeout" => to.timeout = from.timeout,
        "retry_cnt" => to.retry_cnt = from.retry_cnt,
        "rnr_retry" => to.rnr_retry = from.rnr_retry,
        other => panic!("{other} is not needed by any transition"),
    }
}

#[test]
fn foreign_attributes_and_values_out_of_range() {
    let (mut qp, mut port) = qp(QpType::Uc);
    let [init, rtr, _] = steps(QpType::Uc);
    let error = qp.modify(&QpAttr { qkey: Some(1), ..init }, Lid(1), &mut port).unwrap_err();
    assert!(matches!(error, VerbsError::ForeignAttribute { attribute: "qkey", .. }), "{error}");
    qp.modify(&init, Lid(1), &mut port).unwrap();
    let error = qp.modify(&QpAttr { timeout: Some(14), ..rtr }, Lid(1), &mut port).unwrap_err();
    assert!(matches!(error, VerbsError::ForeignAttribute { attribute: "timeout", .. }), "{error}");
    let error = qp.modify(&QpAttr { rq_psn: Some(1 << 24), ..rtr }, Lid(1), &mut port).unwrap_err();
    assert!(matches!(error, VerbsError::OutOfRange { what: "rq_psn", max: 0xff_ffff, .. }), "{error}");
    assert_eq!((qp.state, qp.dest), (QpState::Init, Lid(0)), "nothing changed");
}

#[test]
fn windows_are_powers_of_two() {
    let (mut qp, mut port) = qp(QpType::Rc);
    let [init, rtr, _] = steps(QpType::Rc);
    qp.modify(&init, Lid(1), &mut port).unwrap();
    let mut window = |window| qp.modify(&QpAttr { window: Some(window), ..rtr }, Lid(1), &mut port);
    assert!(matches!(window(100), Result::Err(VerbsError::NotPowerOfTwo { suggestion: 128, .. })));
    assert!(matches!(window(32), Result::Err(VerbsError::OutOfRange { min: 64, .. })));
    assert_eq!(window(128), Ok(()));
}

#[test]
fn reset_forgets_everything_but_the_count() {
    let (mut qp, mut port) = qp(QpType::Rc);
    for attr in steps(QpType::Rc) {
        qp.modify(&attr, Lid(1), &mut port).unwrap();
    }
    qp.requester.front = 4;
    qp.modify(&QpAttr::to(QpState::Reset), Lid(1), &mut port).unwrap();
    assert_eq!((qp.state, qp.requester.posted(), qp.requester.freed), (QpState::Reset, 4, 4));
    assert_eq!(qp.attr, QpAttr::default());
    let error = qp.modify(&QpAttr::to(QpState::Rts), Lid(1), &mut port).unwrap_err();
    assert!(matches!(error, VerbsError::BadTransition { from: QpState::Reset, to: QpState::Rts, .. }), "{error}");
}

#[test]
fn entropy_depends_on_all_three() {
    let one = entropy(Lid(1), Lid(2), 3);
    assert_eq!(one, entropy(Lid(1), Lid(2), 3));
    let others = [entropy(Lid(2), Lid(1), 3), entropy(Lid(1), Lid(3), 3), entropy(Lid(1), Lid(2), 4)];
    assert!(!others.contains(&one));
    // 1024 queue pairs of one pair of NICs spread over 64 paths: no path gets more than three times its share of 16.
    let mut paths = [0; 64];
    (0..1024).for_each(|qp| paths[usize::from(entropy(Lid(1), Lid(2), qp)) % 64] += 1);
    assert!(paths.iter().all(|count| (3..48).contains(count)), "{paths:?}");
}
