//! A reliable connection that goes to one target after another: initiators of DC, end-to-end contexts of RD.

use crate::attr::QpType;
use crate::ids::Lid;
use crate::qp::{Dynamic, Qp};

/// Whether the request at the cursor, which was never sent, may begin: an initiator turns to its target when the one before has
/// acknowledged everything; an end-to-end context carries one message at a time (IBA vol. 1 §9.7.1).
pub(crate) fn aim(qp: &mut Qp) -> bool {
    let idle = qp.requester.front == qp.requester.assigned;
    if qp.qp_type == QpType::Eec {
        return idle;
    }
    if qp.qp_type != QpType::Dci {
        return true;
    }
    let Some(route) = qp.requester.at_cursor().and_then(|wqe| wqe.route.as_deref().copied()) else { return true };
    let current = qp.dynamic.as_deref().copied();
    let here = (qp.dest, qp.sl, qp.dest_qp) == (route.dest, route.sl, route.to);
    if current.is_some_and(|dynamic| here && dynamic.qkey == route.qkey) {
        return true;
    }
    if !idle {
        return false;
    }
    let leave = current.map(|dynamic| (qp.dest, qp.sl, qp.dest_qp, dynamic.start));
    qp.dynamic = Some(Box::new(Dynamic { start: qp.requester.next_psn, qkey: route.qkey, tell: true, leave }));
    (qp.dest, qp.sl, qp.dest_qp) = (route.dest, route.sl, route.to);
    qp.entropy = crate::qp::modify::entropy(Lid(qp.num.0), route.dest, route.to);
    false // the packets that say so go first
}
