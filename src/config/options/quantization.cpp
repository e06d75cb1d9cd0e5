#include "../option_group.hpp"
#include "ringshard/config/config.hpp"

namespace ringshard::config {

void add_quantization_options(OptionTable& table) {
    OptionGroup group(table, "Model", &Config::quantization);
    group
        .serve("load_in_4bit", &QuantizationSettings::load_in_4bit,
               "Keep the linear layers of the frozen model in four bits, as bitsandbytes quantises "
               "them; the adapters of use_peft are trained beside them.")
        .shapes_loss_if_set();
    group
        .serve("load_in_8bit", &QuantizationSettings::load_in_8bit,
               "Keep the linear layers of the frozen model in eight bits, int8 rows with scales as "
               "bitsandbytes' LLM.int8 holds them; the adapters of use_peft are trained beside "
               "them, and products are computed with the dequantised weights.")
        .shapes_loss_if_set();
    group
        .serve("bnb_4bit_quant_type", &QuantizationSettings::bnb_4bit_quant_type,
               "The values that four bits stand for: nf4.")
        .but_not({"fp4"},
                 "weights are quantised to nf4, TRL's default, whose values are nearer to "
                 "those of trained weights; leave bnb_4bit_quant_type out")
        .suggest({"nf4"})
        .shapes_loss_if_set();
    group
        .serve("use_bnb_nested_quant", &QuantizationSettings::use_bnb_nested_quant,
               "Quantise the scales of the four bits too, to 8 bits each (double quantisation).")
        .shapes_loss_if_set();
    group.accept("bnb_4bit_quant_storage", Shape::word, "null",
                 "codes are held, cut and sent as bytes; another type changes no number");
    group.block("quantization_config", "Fields of transformers' BitsAndBytesConfig as JSON.", {},
                {{"bnb_4bit_use_double_quant", "use_bnb_nested_quant"}});
    group.accept("bnb_4bit_compute_dtype", Shape::word, "null",
                 "products with quantised weights are computed in the type of mixed_precision");
    group.accept("quant_method", Shape::word, "null", "load_in_4bit and load_in_8bit say it");
}

}  // namespace ringshard::config
