#pragma once

#include "ringshard/config/config.hpp"
#include "value_text.hpp"

// Names of the choices, in TRL's and Accelerate's words. Older names follow the current one.
namespace ringshard::config {

template <class Enum, size_t Size>
using NameTable = std::array<std::pair<std::string_view, Enum>, Size>;

template <>
struct EnumNames<DeviceChoice> {
    static constexpr NameTable<DeviceChoice, 3> table{{{"auto", DeviceChoice::automatic},
                                                       {"cpu", DeviceChoice::cpu},
                                                       {"cuda", DeviceChoice::cuda}}};
};
template <>
struct EnumNames<CpuGemm> {
    static constexpr NameTable<CpuGemm, 5> table{{{"auto", CpuGemm::automatic},
                                                  {"onednn", CpuGemm::onednn},
                                                  {"mkl", CpuGemm::mkl},
                                                  {"aten", CpuGemm::aten},
                                                  {"native", CpuGemm::native}}};
};
template <>
struct EnumNames<Precision> {
    static constexpr NameTable<Precision, 7> table{{{"bf16", Precision::bf16},
                                                    {"bfloat16", Precision::bf16},
                                                    {"fp8", Precision::fp8},
                                                    {"no", Precision::fp32},
                                                    {"false", Precision::fp32},
                                                    {"fp32", Precision::fp32},
                                                    {"float32", Precision::fp32}}};
};
template <>
struct EnumNames<Fp8Format> {
    static constexpr NameTable<Fp8Format, 2> table{
        {{"e4m3", Fp8Format::e4m3}, {"hybrid", Fp8Format::hybrid}}};
};
template <>
struct EnumNames<Fp8Recipe> {
    static constexpr NameTable<Fp8Recipe, 3> table{{{"rowwise", Fp8Recipe::rowwise},
                                                    {"tensorwise", Fp8Recipe::tensorwise},
                                                    {"delayed", Fp8Recipe::delayed}}};
};
template <>
struct EnumNames<AmaxAlgorithm> {
    static constexpr NameTable<AmaxAlgorithm, 2> table{
        {{"most_recent", AmaxAlgorithm::most_recent}, {"max", AmaxAlgorithm::max}}};
};
template <>
struct EnumNames<Fp8Backend> {
    static constexpr NameTable<Fp8Backend, 2> table{
        {{"ao", Fp8Backend::ao}, {"te", Fp8Backend::te}}};
};
template <>
struct EnumNames<ActivationPolicy> {
    static constexpr NameTable<ActivationPolicy, 5> table{
        {{"everything", ActivationPolicy::everything},
         {"all", ActivationPolicy::all},
         {"all_but_gate_up", ActivationPolicy::all_but_gate_up},
         {"attention", ActivationPolicy::attention},
         {"input", ActivationPolicy::input}}};
};
template <>
struct EnumNames<TrainedBiases> {
    static constexpr NameTable<TrainedBiases, 3> table{{{"none", TrainedBiases::none},
                                                        {"all", TrainedBiases::all},
                                                        {"lora_only", TrainedBiases::lora_only}}};
};
template <>
struct EnumNames<Method> {
    static constexpr NameTable<Method, 7> table{{{"sft", Method::sft},
                                                 {"dpo", Method::dpo},
                                                 {"cpo", Method::cpo},
                                                 {"kto", Method::kto},
                                                 {"reward", Method::reward},
                                                 {"classification", Method::classification},
                                                 {"embedding", Method::embedding}}};
};
template <>
struct EnumNames<ProblemType> {
    static constexpr NameTable<ProblemType, 3> table{
        {{"regression", ProblemType::regression},
         {"single_label_classification", ProblemType::single_label_classification},
         {"multi_label_classification", ProblemType::multi_label_classification}}};
};

template <>
struct EnumNames<Pooling> {
    static constexpr NameTable<Pooling, 3> table{
        {{"lasttoken", Pooling::lasttoken}, {"cls", Pooling::cls}, {"mean", Pooling::mean}}};
};
template <>
struct EnumNames<LossType> {
    static constexpr NameTable<LossType, 21> table{
        {{"nll", LossType::nll},
         {"chunked_nll", LossType::nll},
         {"dft", LossType::dft},
         {"eaft", LossType::eaft},
         {"sigmoid", LossType::sigmoid},
         {"hinge", LossType::hinge},
         {"ipo", LossType::ipo},
         {"exo_pair", LossType::exo_pair},
         {"nca_pair", LossType::nca_pair},
         {"robust", LossType::robust},
         {"bco_pair", LossType::bco_pair},
         {"sppo_hard", LossType::sppo_hard},
         {"apo_zero", LossType::apo_zero},
         {"apo_down", LossType::apo_down},
         {"discopop", LossType::discopop},
         {"sigmoid_norm", LossType::sigmoid_norm},
         {"simpo", LossType::simpo},
         {"alphapo", LossType::alphapo},
         {"orpo", LossType::orpo},
         {"kto", LossType::kto},
         {"apo_zero_unpaired", LossType::apo_zero_unpaired}}};
};
template <>
struct EnumNames<FDivergence> {
    static constexpr NameTable<FDivergence, 4> table{
        {{"reverse_kl", FDivergence::reverse_kl},
         {"forward_kl", FDivergence::forward_kl},
         {"js_divergence", FDivergence::js_divergence},
         {"alpha_divergence", FDivergence::alpha_divergence}}};
};
template <>
struct EnumNames<PackingStrategy> {
    static constexpr NameTable<PackingStrategy, 4> table{
        {{"bfd", PackingStrategy::bfd},
         {"bfd_split", PackingStrategy::bfd_split},
         {"bfd_requeue", PackingStrategy::bfd_split},
         {"wrapped", PackingStrategy::wrapped}}};
};
template <>
struct EnumNames<PackingScope> {
    static constexpr NameTable<PackingScope, 2> table{
        {{"batch", PackingScope::batch}, {"global", PackingScope::global}}};
};
template <>
struct EnumNames<SampleBy> {
    static constexpr NameTable<SampleBy, 2> table{
        {{"line", SampleBy::line}, {"document", SampleBy::document}}};
};
template <>
struct EnumNames<StoppingStrategy> {
    static constexpr NameTable<StoppingStrategy, 2> table{
        {{"first_exhausted", StoppingStrategy::first_exhausted},
         {"all_exhausted", StoppingStrategy::all_exhausted}}};
};
template <>
struct EnumNames<TruncationMode> {
    static constexpr NameTable<TruncationMode, 3> table{{{"keep_start", TruncationMode::keep_start},
                                                         {"keep_end", TruncationMode::keep_end},
                                                         {"drop", TruncationMode::drop}}};
};
template <>
struct EnumNames<DocumentLogging> {
    static constexpr NameTable<DocumentLogging, 3> table{{{"off", DocumentLogging::off},
                                                          {"spikes", DocumentLogging::spikes},
                                                          {"all", DocumentLogging::all}}};
};
template <>
struct EnumNames<OnNan> {
    static constexpr NameTable<OnNan, 3> table{
        {{"abort", OnNan::abort}, {"skip", OnNan::skip}, {"rewind", OnNan::rewind}}};
};
template <>
struct EnumNames<SamplingStrategy> {
    static constexpr NameTable<SamplingStrategy, 3> table{
        {{"random", SamplingStrategy::random},
         {"sequential", SamplingStrategy::sequential},
         {"group_by_length", SamplingStrategy::group_by_length}}};
};
template <>
struct EnumNames<Schedule> {
    static constexpr NameTable<Schedule, 17> table{
        {{"linear", Schedule::linear},
         {"cosine", Schedule::cosine},
         {"cosine_with_restarts", Schedule::cosine_with_restarts},
         {"polynomial", Schedule::polynomial},
         {"constant", Schedule::constant},
         {"constant_with_warmup", Schedule::constant_with_warmup},
         {"inverse_sqrt", Schedule::inverse_sqrt},
         {"cosine_with_min_lr", Schedule::cosine_with_min_lr},
         {"cosine_warmup_with_min_lr", Schedule::cosine_warmup_with_min_lr},
         {"warmup_stable_decay", Schedule::warmup_stable_decay},
         {"reduce_lr_on_plateau", Schedule::reduce_on_plateau},
         {"warmup_lr", Schedule::deepspeed_warmup},
         {"warmuplr", Schedule::deepspeed_warmup},
         {"warmup_decay_lr", Schedule::deepspeed_warmup_decay},
         {"warmupdecaylr", Schedule::deepspeed_warmup_decay},
         {"warmup_cosine_lr", Schedule::deepspeed_warmup_cosine},
         {"warmupcosinelr", Schedule::deepspeed_warmup_cosine}}};
};
template <>
struct EnumNames<Optimizer> {
    static constexpr NameTable<Optimizer, 15> table{
        {{"adafactor", Optimizer::adafactor},
         {"adagrad", Optimizer::adagrad},
         {"adamw_torch_fused", Optimizer::adamw},
         {"adamw_torch", Optimizer::adamw},
         {"adamw", Optimizer::adamw},
         {"adamw_8bit", Optimizer::adamw_8bit},
         {"adamw_bnb_8bit", Optimizer::adamw_8bit},
         {"lion_32bit", Optimizer::lion},
         {"lion", Optimizer::lion},
         {"lion_8bit", Optimizer::lion_8bit},
         {"muon", Optimizer::muon},
         {"rmsprop", Optimizer::rmsprop},
         {"schedule_free_adamw", Optimizer::schedule_free_adamw},
         {"schedule_free_sgd", Optimizer::schedule_free_sgd},
         {"sgd", Optimizer::sgd}}};
};
template <>
struct EnumNames<Interval> {
    static constexpr NameTable<Interval, 4> table{{{"no", Interval::no},
                                                   {"false", Interval::no},
                                                   {"steps", Interval::steps},
                                                   {"epoch", Interval::epoch}}};
};
template <>
struct EnumNames<SaveStrategy> {
    static constexpr NameTable<SaveStrategy, 5> table{{{"no", SaveStrategy::no},
                                                       {"false", SaveStrategy::no},
                                                       {"steps", SaveStrategy::steps},
                                                       {"epoch", SaveStrategy::epoch},
                                                       {"best", SaveStrategy::best}}};
};
template <>
struct EnumNames<DistributedType> {
    static constexpr NameTable<DistributedType, 6> table{
        {{"no", DistributedType::no},
         {"false", DistributedType::no},
         {"multi_gpu", DistributedType::multi_gpu},
         {"multi_cpu", DistributedType::multi_gpu},
         {"fsdp", DistributedType::fsdp},
         {"deepspeed", DistributedType::deepspeed}}};
};
template <>
struct EnumNames<FsdpStrategy> {
    static constexpr NameTable<FsdpStrategy, 10> table{
        {{"full_shard", FsdpStrategy::full_shard},
         {"1", FsdpStrategy::full_shard},
         {"shard_grad_op", FsdpStrategy::shard_grad_op},
         {"2", FsdpStrategy::shard_grad_op},
         {"no_shard", FsdpStrategy::no_shard},
         {"3", FsdpStrategy::no_shard},
         {"hybrid_shard", FsdpStrategy::hybrid_shard},
         {"4", FsdpStrategy::hybrid_shard},
         {"hybrid_shard_zero2", FsdpStrategy::hybrid_shard_zero2},
         {"5", FsdpStrategy::hybrid_shard_zero2}}};
};
template <>
struct EnumNames<OffloadDevice> {
    static constexpr NameTable<OffloadDevice, 4> table{{{"none", OffloadDevice::none},
                                                        {"null", OffloadDevice::none},
                                                        {"cpu", OffloadDevice::cpu},
                                                        {"nvme", OffloadDevice::nvme}}};
};
template <>
struct EnumNames<StateDictType> {
    static constexpr NameTable<StateDictType, 2> table{
        {{"full_state_dict", StateDictType::full}, {"sharded_state_dict", StateDictType::sharded}}};
};
template <>
struct EnumNames<Hdf5Io> {
    static constexpr NameTable<Hdf5Io, 2> table{
        {{"direct", Hdf5Io::direct}, {"mpio", Hdf5Io::mpio}}};
};
template <>
struct EnumNames<Verification> {
    static constexpr NameTable<Verification, 2> table{
        {{"sizes", Verification::sizes}, {"full", Verification::full}}};
};
template <>
struct EnumNames<RingStrategy> {
    static constexpr NameTable<RingStrategy, 3> table{{{"ring", RingStrategy::ring},
                                                       {"alltoall", RingStrategy::ring},
                                                       {"allgather", RingStrategy::allgather}}};
};
template <>
struct EnumNames<NumberType> {
    static constexpr NameTable<NumberType, 5> table{{{"fp32", NumberType::fp32},
                                                     {"float32", NumberType::fp32},
                                                     {"bf16", NumberType::bf16},
                                                     {"bfloat16", NumberType::bf16},
                                                     {"bfp16", NumberType::bf16}}};
};

}  // namespace ringshard::config
