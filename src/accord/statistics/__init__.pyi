from .agreement import Floats as Floats, LOWER_IS_BETTER as LOWER_IS_BETTER, MeanStatistic as MeanStatistic
from .agreement import Paired as Paired, RankStatistic as RankStatistic, STATISTICS as STATISTICS
from .agreement import Statistic as Statistic, TWO_VALUED as TWO_VALUED, WeightedStatistic as WeightedStatistic
from .agreement import krippendorff_alpha as krippendorff_alpha, lowest_rmse as lowest_rmse, number as number
from .agreement import pearson as pearson, range_names as range_names, smece as smece
from .agreement import smece_by_option as smece_by_option, smece_of as smece_of, summary as summary, within as within
from .defaults import CONFIDENCE as CONFIDENCE, DRAWS as DRAWS, FOLDS as FOLDS
from .distributions import beta_quantile as beta_quantile, gamma_quantile as gamma_quantile
from .distributions import normal_quantile as normal_quantile, normal_tail as normal_tail
from .distributions import t_quantile as t_quantile, t_tail as t_tail
from .drawn import units_alpha as units_alpha
from .grouped_t import Part as Part, p_value as p_value, reach as reach, spread_of as spread_of
from .groups import Groups as Groups, Texts as Texts, groups_of as groups_of
from .kappa import alpha_interval as alpha_interval, cohen_kappa as cohen_kappa, counted as counted
from .kappa import fleiss_kappa as fleiss_kappa, mean_kappa as mean_kappa, no_fleiss as no_fleiss
from .kappa import pairwise_kappas as pairwise_kappas, two_valued_alpha as two_valued_alpha
from .reliability import Diagram as Diagram, diagrams as diagrams
from .resampling import Clusters as Clusters, INNER_FOLDS as INNER_FOLDS, Interval as Interval, PairedTest as PairedTest
from .resampling import RANK_DRAWS as RANK_DRAWS, Split as Split, bootstrap as bootstrap, bootstrap_all as bootstrap_all
from .resampling import fold_of as fold_of, grouped_folds as grouped_folds, holm as holm, interval as interval
from .resampling import paired_test as paired_test
from .selective import Tested as Tested, fixed_sequence as fixed_sequence, upper_bound as upper_bound
from .sequence import mean_sequence as mean_sequence
