from .agreement import AC1 as AC1, Floats as Floats, krippendorff_alpha as krippendorff_alpha
from .agreement import LOWER_IS_BETTER as LOWER_IS_BETTER
from .agreement import MeanStatistic as MeanStatistic, number as number, Paired as Paired, pearson as pearson
from .agreement import range_names as range_names, smece as smece, Statistic as Statistic, STATISTICS as STATISTICS
from .agreement import TWO_VALUED as TWO_VALUED, within as within
from .alternative_annotator import alternative_annotator_test as alternative_annotator_test
from .alternative_annotator import AlternativeAnnotators as AlternativeAnnotators, PASSES as PASSES
from .calibration_error import Diagram as Diagram, diagrams as diagrams, mean_smece as mean_smece
from .calibration_error import smece_estimates as smece_estimates
from .chance_corrected import alpha_estimate as alpha_estimate, counted as counted, fleiss_kappa as fleiss_kappa
from .chance_corrected import mean_kappa as mean_kappa, no_fleiss as no_fleiss, pairwise_kappas as pairwise_kappas
from .chart_intervals import group_means as group_means, MIN_CLUSTERS as MIN_CLUSTERS, quantiles as quantiles
from .chart_intervals import slope as slope
from .corrected_means import estimate_systems as estimate_systems, LabeledSystem as LabeledSystem
from .corrected_means import mean_differences as mean_differences, MeanDifference as MeanDifference
from .corrected_means import MIN_LABELED as MIN_LABELED
from .corrected_means import random_label_p as random_label_p, SystemMean as SystemMean
from .defaults import CHART_DRAWS as CHART_DRAWS, CONFIDENCE as CONFIDENCE, DETAIL_DRAWS as DETAIL_DRAWS
from .defaults import DRAWS as DRAWS, FOLDS as FOLDS, IMPORTANCE_DRAWS as IMPORTANCE_DRAWS, RANK_DRAWS as RANK_DRAWS
from .defaults import REPEATED_DRAWS as REPEATED_DRAWS, SIGNIFICANT as SIGNIFICANT, SURE as SURE
from .efficient_means import efficient_means as efficient_means, on_scale as on_scale
from .efficient_means import rogan_gladen as rogan_gladen
from .gap_of_means import gap_of_means as gap_of_means, GapOfMeans as GapOfMeans
from .group_bias import adjusted_difference as adjusted_difference
from .group_bias import bias_difference as bias_difference, bias_slope as bias_slope
from .group_bias import group_bias_tests as group_bias_tests
from .group_bias import group_biases as group_biases, known_groups as known_groups
from .group_bias import MIN_GROUP_RATINGS as MIN_GROUP_RATINGS
from .groups import Groups as Groups, groups_of as groups_of, TextIndex as TextIndex
from .intervals import beta_quantile as beta_quantile, CenteredPart as CenteredPart
from .intervals import clustered_error as clustered_error, clustered_mean as clustered_mean
from .intervals import ClusteredMean as ClusteredMean, fixed_sequence as fixed_sequence
from .intervals import gamma_quantile as gamma_quantile, mean_sequence as mean_sequence
from .intervals import normal_quantile as normal_quantile, normal_tail as normal_tail, p_value as p_value
from .intervals import reach as reach, SelectiveTest as SelectiveTest, spread_of as spread_of, tradeoff as tradeoff
from .intervals import upper_bound as upper_bound
from .jackknife import jackknife as jackknife, jackknife_of as jackknife_of
from .paired_comparisons import bradley_terry as bradley_terry, corrected_strengths as corrected_strengths
from .paired_comparisons import KAPPA as KAPPA
from .paired_comparisons import parts_apart as parts_apart, Preferences as Preferences
from .resampled_statistics import units_alpha as units_alpha
from .resampling import bootstrap as bootstrap, bootstrap_all as bootstrap_all, central as central
from .resampling import Clusters as Clusters, estimate_from_draws as estimate_from_draws, fold_of as fold_of
from .resampling import grouped_folds as grouped_folds, holm as holm, INNER_FOLDS as INNER_FOLDS
from .resampling import mean_over as mean_over, paired_test as paired_test, PairedTest as PairedTest
from .resampling import SingleGroup as SingleGroup, Split as Split
from .scale_intervals import mean_on_scale as mean_on_scale, share_interval as share_interval
from .share_to_automate import shares_to_test as shares_to_test, widest_share as widest_share
from .two_sample_test import two_sample_test as two_sample_test, TwoSampleResult as TwoSampleResult
