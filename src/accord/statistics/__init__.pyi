from .agreement import Floats as Floats, krippendorff_alpha as krippendorff_alpha, LOWER_IS_BETTER as LOWER_IS_BETTER
from .agreement import lowest_rmse as lowest_rmse, MeanStatistic as MeanStatistic, number as number, Paired as Paired
from .agreement import pearson as pearson, range_names as range_names, smece as smece
from .agreement import smece_by_option as smece_by_option, smece_of as smece_of, Statistic as Statistic
from .agreement import STATISTICS as STATISTICS, summary as summary, TWO_VALUED as TWO_VALUED
from .agreement import WeightedStatistic as WeightedStatistic, within as within
from .intervals import CenteredPart as CenteredPart, p_value as p_value, reach as reach, spread_of as spread_of
from .intervals import clustered_error as clustered_error, clustered_mean as clustered_mean
from .intervals import ClusteredMean as ClusteredMean, mean_sequence as mean_sequence
from .chart_intervals import group_means as group_means, MIN_CLUSTERS as MIN_CLUSTERS, quantiles as quantiles
from .chart_intervals import slope as slope
from .defaults import CHART_DRAWS as CHART_DRAWS, CONFIDENCE as CONFIDENCE, DETAIL_DRAWS as DETAIL_DRAWS
from .defaults import DRAWS as DRAWS, FOLDS as FOLDS, IMPORTANCE_DRAWS as IMPORTANCE_DRAWS
from .defaults import RANK_DRAWS as RANK_DRAWS, REPEATED_DRAWS as REPEATED_DRAWS
from .defaults import SIGNIFICANT as SIGNIFICANT, SURE as SURE
from .groups import Groups as Groups, groups_of as groups_of, TextIndex as TextIndex
from .kappa import alpha_estimate as alpha_estimate, cohen_kappa as cohen_kappa, counted as counted
from .kappa import fleiss_kappa as fleiss_kappa, mean_kappa as mean_kappa, no_fleiss as no_fleiss
from .kappa import pairwise_kappas as pairwise_kappas, two_valued_alpha as two_valued_alpha
from .calibration_error import Diagram as Diagram, diagrams as diagrams, mean_smece as mean_smece
from .calibration_error import smece_estimates as smece_estimates
from .resampled_statistics import units_alpha as units_alpha
from .resampling import bootstrap as bootstrap, bootstrap_all as bootstrap_all, central as central
from .resampling import Clusters as Clusters
from .resampling import estimate_from_draws as estimate_from_draws, fold_of as fold_of, grouped_folds as grouped_folds
from .resampling import mean_over as mean_over
from .resampling import holm as holm, INNER_FOLDS as INNER_FOLDS, paired_test as paired_test, PairedTest as PairedTest
from .resampling import SingleGroup as SingleGroup, Split as Split
from .intervals import fixed_sequence as fixed_sequence, SelectiveTest as SelectiveTest
from .intervals import tradeoff as tradeoff, upper_bound as upper_bound
from .intervals import (
    beta_quantile as beta_quantile,
    gamma_quantile as gamma_quantile,
    normal_quantile as normal_quantile,
)
from .intervals import normal_tail as normal_tail, t_quantile as t_quantile, t_tail as t_tail
