/* seed_layouts.c - see seed_layouts.h. */
#include "seed_layouts.h"

#include <stdio.h>
#include <string.h>

/* Weights of compressed-tensors and bitsandbytes. */
static void int8_seeds(save_fn *save)
{
    unsigned char data[64];

    memset(data, 0x81, sizeof data);
    memset(data, 0, 16);
    data[0] = 2; /* the shape [2, 7] */
    data[8] = 7;
    save("packed",
         "{\"m.weight_shape\":{\"dtype\":\"I64\",\"shape\":[2],\"data_offsets\":[0,16]},"
         "\"m.weight_packed\":{\"dtype\":\"I32\",\"shape\":[2,2],\"data_offsets\":[16,32]},"
         "\"m.weight_scale\":{\"dtype\":\"BF16\",\"shape\":[2,1],\"data_offsets\":[32,36]}}",
         data, 36);
    data[8] = 8;
    save("packed-groups",
         "{\"m.weight_shape\":{\"dtype\":\"I64\",\"shape\":[2],\"data_offsets\":[0,16]},"
         "\"m.weight_packed\":{\"dtype\":\"I32\",\"shape\":[2,2],\"data_offsets\":[16,32]},"
         "\"m.weight_scale\":{\"dtype\":\"F16\",\"shape\":[2,4],\"data_offsets\":[32,48]}}",
         data, 48);
    save("int-quantized",
         "{\"m.weight\":{\"dtype\":\"I8\",\"shape\":[2,4],\"data_offsets\":[0,8]},"
         "\"m.weight_scale\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[8,16]},"
         "\"m.weight_zero_point\":{\"dtype\":\"I8\",\"shape\":[2,1],\"data_offsets\":[16,18]},"
         "\"m.input_scale\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[18,22]}}",
         data, 22);
    save("bitsandbytes",
         "{\"m.weight_format\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[4,5]},"
         "\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
         "\"m.weight\":{\"dtype\":\"I8\",\"shape\":[2,4],\"data_offsets\":[5,13]},"
         "\"m.SCB\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[13,21]}}",
         data, 21);
}

/* Codes of floats as compressed-tensors and bitsandbytes have them; the last with double quantization. */
static void float_code_seeds(save_fn *save)
{
    static const char state[] = "{\"quant_type\":\"nf4\",\"blocksize\":32,\"dtype\":\"bfloat16\",\"shape\":[2,32],"
                                "\"nested_blocksize\":256,\"nested_dtype\":\"float32\",\"nested_offset\":0.5}";
    unsigned char data[2048];
    unsigned char shape[64] = {0};
    char text[1024];
    size_t n = sizeof state - 1;

    memset(data, 0x31, sizeof data);
    memset(shape, 0x31, 48);
    shape[48] = 2; /* [2, 40], as I64 */
    shape[56] = 40;
    save("nvfp4",
         "{\"m.weight_packed\":{\"dtype\":\"U8\",\"shape\":[2,8],\"data_offsets\":[0,16]},"
         "\"m.weight_scale\":{\"dtype\":\"F8_E4M3\",\"shape\":[2,1],\"data_offsets\":[16,18]},"
         "\"m.weight_global_scale\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[18,22]}}",
         data, 22);
    save("mxfp4",
         "{\"m.weight_packed\":{\"dtype\":\"U8\",\"shape\":[2,16],\"data_offsets\":[0,32]},"
         "\"m.weight_scale\":{\"dtype\":\"U8\",\"shape\":[2,1],\"data_offsets\":[32,34]}}",
         data, 34);
    save("fp8",
         "{\"m.weight\":{\"dtype\":\"F8_E4M3\",\"shape\":[2,8],\"data_offsets\":[0,16]},"
         "\"m.weight_scale\":{\"dtype\":\"BF16\",\"shape\":[2,1],\"data_offsets\":[16,20]}}",
         data, 20);
    save("blocks",
         "{\"m.weight\":{\"dtype\":\"F8_E4M3\",\"shape\":[3,130],\"data_offsets\":[0,390]},"
         "\"m.weight_scale_inv\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[390,398]}}",
         data, 398);
    save("zeros",
         "{\"m.weight_packed\":{\"dtype\":\"I32\",\"shape\":[2,5],\"data_offsets\":[0,40]},"
         "\"m.weight_scale\":{\"dtype\":\"F16\",\"shape\":[2,1],\"data_offsets\":[40,44]},"
         "\"m.weight_zero_point\":{\"dtype\":\"I32\",\"shape\":[1,1],\"data_offsets\":[44,48]},"
         "\"m.weight_shape\":{\"dtype\":\"I64\",\"shape\":[2],\"data_offsets\":[48,64]}}",
         shape, 64);
    memcpy(data + 1318, state, n);
    (void)snprintf(
        text, sizeof text,
        "{\"m.weight\":{\"dtype\":\"U8\",\"shape\":[32,1],\"data_offsets\":[0,32]},"
        "\"m.weight.absmax\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[32,34]},"
        "\"m.weight.nested_absmax\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[34,38]},"
        "\"m.weight.nested_quant_map\":{\"dtype\":\"F32\",\"shape\":[256],\"data_offsets\":[38,1062]},"
        "\"m.weight.quant_map\":{\"dtype\":\"F32\",\"shape\":[64],\"data_offsets\":[1062,1318]},"
        "\"m.weight.quant_state.bitsandbytes__nf4\":{\"dtype\":\"U8\",\"shape\":[%zu],\"data_offsets\":[1318,%zu]}}",
        n, 1318 + n);
    save("nf4", text, data, 1318 + n);
}

void seed_layouts(save_fn *save)
{
    int8_seeds(save);
    float_code_seeds(save);
}
