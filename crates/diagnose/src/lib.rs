//! Is my number normal? A measured table, the same run predicted, and each thing that may be wrong with the machine simulated.
//!
//! [`causes`] has what may be wrong, as changes of what is run; [`normal`] what errors of predictions are usual, from the published
//! tables; [`diagnosis`] weighs the one against the other; [`change`] does so with two tables of the same run, whose ratios know
//! nothing of the model's errors; [`next`] finds the measurement that tells two causes apart; [`show`] makes the outcome.

pub mod causes;
pub mod change;
mod covariance;
mod curve;
pub mod diagnosis;
pub mod next;
pub mod normal;
pub mod show;

pub use change::{Compared, compare};
pub use curve::TablePoint;
pub use diagnosis::{Case, DiagnoseError, Diagnosis, Finding, Standing, Suspect, diagnose};
