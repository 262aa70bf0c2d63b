"""tokenizer_families.py - vocabularies with the pipelines of known families, trained on the spot: names and makers.

Each maker returns a tokenizers.Tokenizer whose tokenizer.json has the parts that the family's file on the hub has. The vocabularies
are small: what is judged is how texts are cut, not what was learned.
"""
import base64
import json
import os

import sentencepiece
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

LINES = """The quick brown fox jumps over the lazy dog, and 1234567890 is a number.
It's what we've said: they'll come, I'd go, you're right, I'm sure, don't!
def main(args):\n    for i in range(10):\n        print("hello", args[i] * 3.14159)
Der schnelle braune Fuchs springt über den faulen Hund; größer, süßer, Straße.
Le renard brun rapide saute par-dessus le chien paresseux, où l'été naît à Noël.
El veloz zorro marrón salta sobre el perro perezoso, ¿verdad? ¡Sí, señor!
Быстрая коричневая лиса перепрыгивает через ленивую собаку.
Η γρήγορη καφέ αλεπού πηδάει πάνω από το τεμπέλικο σκυλί.
すばやい茶色の狐がのろまな犬を飛び越える。カタカナとひらがなと漢字。
敏捷的棕色狐狸跳过懒狗。我们今天去北京看长城，一共三百六十五天。
빠른 갈색 여우가 게으른 개를 뛰어넘습니다. 한국어 문장입니다.
الثعلب البني السريع يقفز فوق الكلب الكسول، أليس كذلك؟
השועל החום המהיר קופץ מעל הכלב העצלן.
तेज भूरी लोमड़ी आलसी कुत्ते के ऊपर कूदती है।
สุนัขจิ้งจอกสีน้ำตาลกระโดดข้ามสุนัขขี้เกียจ
Tiếng Việt có nhiều dấu: được, những, người, Nguyễn.
e=mc^2 and a+b=c; x != y && z || !w -> {[(<>)]} #hash @at $5.00 100% ~tilde `tick` \\n
""".split("\n")

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
CL100K = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
CL100K_POSSESSIVE = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
QWEN = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
TEKKEN = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
          r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
          r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
DEEPSEEK = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"
            r"|\s*[\r\n]+|\s+(?!\S)|\s+")
DEEPSEEK_CODER = [r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", r"[一-龥ࠀ-一가-퟿]+"]
KIMI = (r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
        r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
        r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
BLOOM = r" ?[^(\s|[.,!?…。，、।۔،])]+"
CLIP = r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
SPACES = [" " * n for n in range(24, 1, -1)]


def special(text, **flags):
    return AddedToken(text, special=True, normalized=False, **flags)


def byte_level(split=None, normalizer=None, specials=("<|endoftext|>",), added=(), post=None, size=900, prefix_space=False, before=(), ignore=False,
               regex=None):
    """byte-level BPE: cut by `split` (one expression or several), or by GPT-2's own where there is none"""
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore))
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    steps = list(before)
    for one in [split] if isinstance(split, str) else split or []:
        steps.append(pre_tokenizers.Split(Regex(one), "isolated"))
    steps.append(pre_tokenizers.ByteLevel(add_prefix_space=prefix_space, use_regex=regex if regex is not None else not split))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(steps) if len(steps) > 1 else steps[0]
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=list(specials), show_progress=False)
    tokenizer.train_from_iterator(LINES * 3, trainer)
    tokenizer.add_tokens([a if isinstance(a, AddedToken) else AddedToken(a, normalized=True) for a in added])
    tokenizer.post_processor = post(tokenizer) if post else processors.ByteLevel(trim_offsets=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def template(begin=None, end=None):
    def make(tokenizer):
        names = [name for name in (begin, end) if name]
        return processors.TemplateProcessing(single=" ".join([begin] * bool(begin) + ["$A"] + [end] * bool(end)),
                                             special_tokens=[(name, tokenizer.token_to_id(name)) for name in names])
    return make


def spm(folder, kind, **options):
    """a model of SentencePiece: its file, and the parsed proto"""
    corpus = os.path.join(folder, "lines.txt")
    with open(corpus, "w") as file:
        file.write("\n".join(LINES * 3))
    settings = {"vocab_size": 700, "character_coverage": 0.99, "model_type": kind, "hard_vocab_limit": False, "num_threads": 1, "minloglevel": 2,
                "max_sentence_length": 100000, **options}
    prefix = os.path.join(folder, "spm_" + str(abs(hash((kind, *sorted(map(str, options.items()))))) % 10**8))
    sentencepiece.SentencePieceTrainer.Train(input=corpus, model_prefix=prefix, **settings)
    from sentencepiece import sentencepiece_model_pb2

    proto = sentencepiece_model_pb2.ModelProto()
    with open(prefix + ".model", "rb") as file:
        proto.ParseFromString(file.read())
    return prefix + ".model", proto


def merges_of(proto):
    """the pairs that give pieces, in the order of their scores, as transformers makes them of a BPE"""
    scores = {p.piece: (i, p.score) for i, p in enumerate(proto.pieces)}
    merges = []
    for piece, (_, score) in scores.items():
        local = []
        for i in range(1, len(piece)):
            left, right = piece[:i], piece[i:]
            if left in scores and right in scores:
                local.append((left, right, score))
        merges += sorted(local, key=lambda x: (scores[x[0]][0], scores[x[1]][0]))
    merges.sort(key=lambda x: x[2], reverse=True)
    return [(left, right) for left, right, _ in merges]


def llama2(folder, metaspace=None, added=(), normalizer=None, pre=None, remove=False):
    """BPE of SentencePiece with bytes, as converted"""
    _, proto = spm(folder, "bpe", byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=remove, split_digits=True,
                   user_defined_symbols=["\n\n", "    "] if pre else [])
    vocab = {p.piece: i for i, p in enumerate(proto.pieces)}
    tokenizer = Tokenizer(models.BPE(vocab, merges_of(proto), unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    if metaspace:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme=metaspace, split=False)
    elif normalizer is not None:
        tokenizer.normalizer = normalizer
        tokenizer.pre_tokenizer = pre
    else:
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.add_special_tokens([special("<unk>"), special("<s>"), special("</s>")])
    tokenizer.add_tokens(list(added))
    tokenizer.post_processor = template("<s>")(tokenizer)
    return tokenizer


def charsmap(proto):
    return bytes(proto.normalizer_spec.precompiled_charsmap)


def unigram(folder, normalizer, pre, begin=None, end=None, added=(), **options):
    _, proto = spm(folder, "unigram", **options)
    tokenizer = Tokenizer(models.Unigram([(p.piece, p.score) for p in proto.pieces], unk_id=proto.trainer_spec.unk_id,
                                         byte_fallback=bool(options.get("byte_fallback"))))
    if normalizer is not None:
        tokenizer.normalizer = normalizer(charsmap(proto))
    tokenizer.pre_tokenizer = pre
    tokenizer.add_special_tokens([special("<s>"), special("</s>")])
    tokenizer.add_tokens(list(added))
    tokenizer.post_processor = template(begin, end)(tokenizer) if begin or end else None
    return tokenizer


def bert(lowercase, strip=None, chinese=True):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(clean_text=True, handle_chinese_chars=chinese, strip_accents=strip, lowercase=lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer.train_from_iterator(LINES * 3, trainers.WordPieceTrainer(vocab_size=900, special_tokens=names, show_progress=False))
    tokenizer.post_processor = template("[CLS]", "[SEP]")(tokenizer)
    return tokenizer


def roberta():
    def post(tokenizer):
        return processors.RobertaProcessing(("</s>", tokenizer.token_to_id("</s>")), ("<s>", tokenizer.token_to_id("<s>")), True, False)
    return byte_level(specials=("<s>", "<pad>", "</s>", "<unk>", AddedToken("<mask>", lstrip=True, special=True, normalized=False)), post=post)


def clip():
    tokenizer = Tokenizer(models.BPE(unk_token="<|endoftext|>", end_of_word_suffix="</w>", fuse_unk=False))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(CLIP), "removed", invert=True),
                                                       pre_tokenizers.ByteLevel(add_prefix_space=False)])
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=1200, initial_alphabet=alphabet, end_of_word_suffix="</w>", show_progress=False,
                                  special_tokens=["<|startoftext|>", "<|endoftext|>"])
    tokenizer.train_from_iterator(LINES * 3, trainer)
    tokenizer.post_processor = processors.RobertaProcessing(("<|endoftext|>", 1), ("<|startoftext|>", 0), False, False)
    return tokenizer


def word_level():
    tokenizer = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents(), normalizers.Strip(), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.train_from_iterator(LINES, trainers.WordLevelTrainer(vocab_size=400, special_tokens=["[UNK]"], show_progress=False))
    tokenizer.add_tokens([AddedToken("fox", single_word=True), AddedToken("hello", rstrip=True, lstrip=True)])
    return tokenizer


def prefixed():
    """BPE with a prefix inside words, an unknown token and no bytes"""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", continuing_subword_prefix="##", fuse_unk=False))
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation("merged_with_previous"),
                                                       pre_tokenizers.Digits(individual_digits=False)])
    trainer = trainers.BpeTrainer(vocab_size=600, special_tokens=["<unk>"], continuing_subword_prefix="##", limit_alphabet=120, show_progress=False)
    tokenizer.train_from_iterator(LINES * 3, trainer)
    return tokenizer


def metaspace(always=True):
    return pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always" if always else "first")


def families(folder):
    """name -> maker, more than twenty"""
    n, p = normalizers, pre_tokenizers
    think = [AddedToken("<think>", normalized=False), AddedToken("</think>", normalized=False), AddedToken("<tool_call>", normalized=False)]
    turns = [special("<|user|>", rstrip=True), special("<|assistant|>", rstrip=True), special("<|end|>", rstrip=True)]
    falcon = [p.Punctuation("contiguous"), p.ByteLevel(add_prefix_space=False), p.Digits(individual_digits=False), p.Split(Regex("[0-9][0-9][0-9]"), "isolated")]
    return {
        "gpt2": byte_level,
        "gpt2_prefix": lambda: byte_level(prefix_space=True),
        "gpt4": lambda: byte_level(CL100K),
        "gpt4_possessive": lambda: byte_level(CL100K_POSSESSIVE.replace("{1,3}+", "{1,3}")),
        "gpt4o": lambda: byte_level(O200K, ignore=True),
        "llama2": lambda: llama2(folder),
        "llama2_first": lambda: llama2(folder, "first"),
        "llama3": lambda: byte_level(CL100K, ignore=True, specials=("<|begin_of_text|>", "<|eot_id|>"), post=lambda t: processors.Sequence(
            [processors.ByteLevel(trim_offsets=False), template("<|begin_of_text|>")(t)])),
        "qwen2": lambda: byte_level(QWEN, normalizer=n.NFC()),
        "qwen3": lambda: byte_level(QWEN, normalizer=n.NFC(), added=think),
        "gemma": lambda: llama2(folder, normalizer=n.Replace(" ", "▁"), pre=p.Split(" ", "merged_with_previous"), added=[
            AddedToken("\n" * k, normalized=False) for k in range(2, 6)] + [AddedToken("▁" * k, normalized=False) for k in range(2, 6)]),
        "tekken": lambda: byte_level(TEKKEN, ignore=True, specials=("<unk>", "<s>", "</s>", "[INST]", "[/INST]"), post=template("<s>")),
        "phi3": lambda: llama2(folder, added=turns),
        "deepseek_v3": lambda: byte_level([r"\p{N}{1,3}", r"[一-龥぀-ゟ゠-ヿ]+", DEEPSEEK], specials=("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"),
                                          post=template("<｜begin▁of▁sentence｜>")),
        "deepseek_coder": lambda: byte_level(DEEPSEEK_CODER, before=[], added=["<|EOT|>"]),
        "kimi": lambda: byte_level(KIMI),
        "bert_cased": lambda: bert(False),
        "bert_uncased": lambda: bert(True),
        "bert_accents": lambda: bert(True, strip=False, chinese=False),
        "roberta": roberta,
        "t5": lambda: unigram(folder, lambda m: n.Sequence([n.Precompiled(m)]), p.Sequence([p.WhitespaceSplit(), metaspace()]), end="</s>", added=[
            AddedToken(f"<extra_id_{i}>", normalized=False) for i in range(3)]),
        "xlm_r": lambda: unigram(folder, n.Precompiled, p.Sequence([p.WhitespaceSplit(), metaspace()]), "<s>", "</s>", added=[
            AddedToken("<mask>", lstrip=True, normalized=False)]),
        "albert": lambda: unigram(folder, lambda m: n.Sequence([n.Replace("``", '"'), n.Replace("''", '"'), n.NFKD(), n.StripAccents(), n.Lowercase(),
                                                                n.Precompiled(m)]), p.Sequence([p.WhitespaceSplit(), metaspace()]), "<s>", "</s>"),
        "deberta": lambda: unigram(folder, lambda m: n.Sequence([n.Strip(), n.Precompiled(m), n.Replace(Regex(" {2,}"), " ")]), metaspace(), "<s>", "</s>"),
        "unigram_bytes": lambda: unigram(folder, lambda m: n.Sequence([n.Nmt(), n.NFKC(), n.Replace(Regex(" {2,}"), " ")]), metaspace(False),
                                         byte_fallback=True),
        "modernbert": lambda: byte_level(normalizer=n.NFC(), specials=("[UNK]", "[CLS]", "[SEP]", AddedToken("[MASK]", lstrip=True, special=True, normalized=False)),
                                         added=SPACES, post=template("[CLS]", "[SEP]")),
        "gpt_neox": lambda: byte_level(normalizer=n.NFC(), added=SPACES),
        "olmo": lambda: byte_level(normalizer=n.NFC(), added=SPACES + ["|||EMAIL_ADDRESS|||", "|||IP_ADDRESS|||"], post=lambda t: template(None, "<|endoftext|>")(t)),
        "starcoder": lambda: byte_level(before=[p.Digits(individual_digits=True)], specials=("<|endoftext|>", "<fim_prefix>", "<fim_middle>")),
        "falcon": lambda: falcon_of(falcon),
        "clip": clip,
        "whisper": lambda: byte_level(specials=("<|endoftext|>", "<|startoftranscript|>", "<|en|>", "<|0.00|>")),
        "bloom": lambda: byte_level(BLOOM, regex=False),
        "word_level": word_level,
        # spaces that one token takes and the next one is; a text whose first spaces are gone does not begin the text
        "spaces_taken": lambda: byte_level(added=[AddedToken("  ", rstrip=True), AddedToken("fox", lstrip=True, rstrip=True), AddedToken(" ", normalized=False)]),
        "stripped_first": lambda: unigram(folder, lambda m: n.Sequence([n.Strip(), n.Precompiled(m)]), metaspace(False), byte_fallback=True),
        "prefixed": prefixed,
    }


def falcon_of(steps):
    tokenizer = byte_level()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(steps)
    return tokenizer


BAD_TEXT = "a\x00b\x01\x0b\x0c\x1f\x7f\x85\x9f�"
NASTY = [
    *LINES,
    "",
    " ",
    "   leading and trailing   ",
    "tabs\tand\t\ttabs \t mixed \u00a0 nbsp \u2003 em \u3000 wide \u200b zero \ufeff bom",
    "\ufeffwith a mark in front",
    "CRLF lines\r\nof text\r\n\r\nand\rlone returns\r\n",
    "\n\n\nempty\n \n  \n\t\nlines\n\n",
    BAD_TEXT,
    "e\u0301 é n\u0303o q\u0307\u0323 q\u0323\u0307 \u1e9b\u0323 a\u0315\u0300\u05ae\u0300b \u0344 ﬁ ﬂ ﬃ ① ½ ™ Ⅷ Å Å ﷺ",
    "가각힣 \u1100\u1161\u11a8 \u1112\u1161\u11ab\u1100\u1173\u11af ㄱㄴ",
    "👍🏽 👨‍👩‍👧‍👦 🏳️‍🌈 🇩🇪🇫🇷 ❤️ ☠ 🤷🏻‍♀️ 1️⃣ #️⃣ ©‍© 👩🏽‍🚀",
    "İstanbul ISTANBUL ıI ſß ẞ ǅ ΣΑΣ ὈΔΥΣΣΕΎΣ Ⅸ ⓐ Ⓐ ꙮ",
    "x" * 300 + " " + "ab" * 200 + " " + "漢" * 150,
    " " * 90 + "x" + " " * 31 + "\n" + "\t" * 9 + "y",
    "1234567 12.345,67 ٠١٢٣ १२३ ２３４ ²³¹ ⅔ 1e-10 0x1F",
    "'S 'T 'RE I'VE you'LL He'D 'ſ it’s “quotes” ‘single’ …",
    "foo_bar fooBar FOOBar __init__ a-b--c---d a.b..c...d !!!??? ;;; ``x'' --> <<>>",
    "<s> </s><unk> <pad> <mask>  <mask> x<mask>y [CLS] [MASK]  [SEP][UNK] <|endoftext|><|endoftext|> <|begin_of_text|> <|eot_id|>",
    "<think>\nno</think> <tool_call> <|user|>\n\n hi <|end|> <|assistant|>  <extra_id_0><extra_id_9> [INST] x [/INST] <fim_prefix>",
    "a fox foxes fox. unfox FOX hello   hello world  hello",
    "<｜begin▁of▁sentence｜>▁under▁▁score |||EMAIL_ADDRESS||| <|EOT|> <|0.00|>",
    "தமிழ் മലയാളം తెలుగు ಕನ್ನಡ বাংলা ગુજરાતી ਪੰਜਾਬੀ සිංහල မြန်မာ ខ្មែរ ລາວ བོད་ ქართული հայերեն አማርኛ ᏣᎳᎩ ᠮᠣᠩᠭᠣᠯ",
    "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𐍈 𒀀 𝟘𝟙 🀄 𠀀𠮷 豈更 丽 ｶﾞｷﾞ ㌔ ㍿ ﾊﾟ",
    "السَّلامُ عَلَيْكُم ـــ ﻼ שָׁלוֹם \u200f\u202arl\u202c \u0600 1 \u0601a",
    "\x0f\x19ab the text begins with what goes",
    "\u0307\u0358\u034b\u032d\u0343 marks that change places at its beginning",
    "\u0301\u0302 lone marks \u093f \u20dd \ufe0f\ufe0e \u200d\u200d x\u200d",
    "if (a<b&&c>d){return x[i++]*y%z^w|~v;}//c\n/* d */ #include <e.h>\n\tx := y ?? z?.w",
]
