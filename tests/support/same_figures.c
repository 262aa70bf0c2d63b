#include "same_figures.h"

#include "support.h"

#define SAME(member) assert_memory_equal(&a->member, &b->member, sizeof a->member)

void expect_same_quality(const struct vc_quality *a, const struct vc_quality *b)
{
    SAME(n_rows);
    SAME(n_labels);
    SAME(accuracy);
    SAME(ce);
    SAME(agreement);
    SAME(kd);
    SAME(loss);
    SAME(answers);
    SAME(n_outputs);
    SAME(output);
    SAME(n_targets);
    SAME(squared_error);
    SAME(r2);
    SAME(teacher_r2);
    SAME(task);
    SAME(absolute_error);
    SAME(f1);
    SAME(iou);
    SAME(exact_match);
    SAME(cosine);
}

void expect_same_totals(const struct vc_report_totals *a, const struct vc_report_totals *b)
{
    SAME(n_tensors);
    SAME(n_changed);
    SAME(n_kept);
    SAME(n_dropped);
    SAME(n_tied);
    SAME(n_params);
    SAME(file_before);
    SAME(file_after);
    SAME(host_before);
    SAME(host_after);
    SAME(device_native);
    SAME(device_dequantized);
    SAME(scale_bytes);
    SAME(optimizer_before);
    SAME(optimizer_after);
    SAME(other_before);
    SAME(other_after);
    SAME(bits_per_weight);
    SAME(measured);
    SAME(sqnr_db);
    SAME(worst);
}

void expect_same_stats(const struct vc_value_stats *a, const struct vc_value_stats *b)
{
    SAME(valid);
    SAME(n_elems);
    SAME(nans);
    SAME(infs);
    SAME(zeros);
    SAME(subnormals);
    SAME(min);
    SAME(max);
    SAME(absmax);
    SAME(mean);
    SAME(rms);
    SAME(histogram);
}
