/* page_style.c - how pages look: page_style.h. One accent colour; the colours of parts differ in lightness, too, so
 * that they can be told apart without seeing hues, and each has its name beside it. */
#include "report/pages/page_style.h"

/* Colours by what they are for, in light and in dark. */
static const char colours[] =
    ":root{--bg:#faf9f6;--card:#fff;--ink:#1b1e23;--dim:#5b636d;--line:#e3e0d8;--soft:#f1efe9;--accent:#0a6e5d;"
    "--yes:#d8ece6;--yes-ink:#0a5c4e;--near:#fbecc8;--near-ink:#6b4a00;--no:#f3e3e4;--no-ink:#8a2432}\n"
    ".s0{fill:#eef4f2;background:#eef4f2}.s1{fill:#d3e6e0;background:#d3e6e0}.s2{fill:#b1d5cb;background:#b1d5cb}.s3{"
    "fill:#88bfb2;background:#88bfb2}.s4{fill:#5ca595;background:#5ca595}.s5{fill:#358a78;background:#358a78}"
    ".s6{fill:#14695a;background:#14695a}.s7{fill:#053f36;background:#053f36}\n"
    "td.heat{color:#1b1e23}td.s5,td.s6,td.s7{color:#fff}\n"
    ".k0{fill:#4477aa}.k1{fill:#66ccee}.k2{fill:#228833}.k3{fill:#ccbb44}.k4{fill:#ee6677}.k5{fill:#9a9a9a}"
    ".k6{fill:#aa3377}.k7{fill:#e8a05c}.k8{fill:#66737f}.k9{fill:#b8c0c8}.k10{fill:#8c6d4f}.k11{fill:#44aa99}"
    ".k12{fill:#5a4fb0}\n"
    "@media screen and "
    "(prefers-color-scheme:dark){:root{--bg:#111416;--card:#181c1f;--ink:#e8eaeb;--dim:#9ba4ac;--line:#2c3236;"
    "--soft:#20262a;--accent:#4fd1b5;--yes:#173c34;--yes-ink:#8fe3cf;--near:#40341a;--near-ink:#f0cf86;--no:#42242a;"
    "--no-ink:#f5aab4}\n"
    ".s0{fill:#1f2a2a;background:#1f2a2a}.s1{fill:#22403a;background:#22403a}.s2{fill:#245449;background:#245449}.s3{"
    "fill:#286c5e;background:#286c5e}.s4{fill:#2f8a77;background:#2f8a77}.s5{fill:#40ab94;background:#40ab94}"
    ".s6{fill:#6fd3bd;background:#6fd3bd}.s7{fill:#c5f5e9;background:#c5f5e9}td.heat{color:var(--ink)}td.s4,td.s5,td."
    "s6,td.s7{color:#0c1513}}\n";

static const char frame[] =
    "*{box-sizing:border-box}\n"
    "html{-webkit-text-size-adjust:100%;text-size-adjust:100%}\n"
    "body{margin:0;background:var(--bg);color:var(--ink);font:1rem/1.55 system-ui,-apple-system,'Segoe UI',Roboto,"
    "'Helvetica Neue','DejaVu Sans',Arial,sans-serif;font-variant-numeric:tabular-nums}\n"
    "header,main,footer{max-width:66rem;margin:0 auto;padding:0 clamp(1rem,4vw,2.5rem)}\n"
    "header{padding-top:clamp(1.5rem,5vw,3.25rem)}\n"
    ".mark{display:flex;gap:.6rem;align-items:baseline;margin:0 0 .5rem;font-size:.8125rem;letter-spacing:.02em;"
    "color:var(--dim)}\n"
    ".mark b{color:var(--accent);font-weight:650}.mark span::before{content:'/';margin-right:.6rem;opacity:.5}\n"
    "h1{margin:0;font-size:clamp(1.6rem,4.6vw,2.4rem);line-height:1.15;font-weight:650;letter-spacing:-.02em;"
    "overflow-wrap:anywhere}\n"
    "h2{margin:0 0 .25rem;font-size:1.1875rem;line-height:1.3;font-weight:630;letter-spacing:-.01em}\n"
    "h3{margin:0;font-size:.9375rem;font-weight:600;overflow-wrap:anywhere}\n"
    ".about,.lead,figcaption,.note{color:var(--dim)}\n"
    ".about{margin:.5rem 0 0;overflow-wrap:anywhere}.lead{margin:0 0 1rem;max-width:46rem;font-size:.9375rem}\n"
    "section{margin:1.5rem 0;padding:clamp(1.1rem,3vw,1.75rem);background:var(--card);border:1px solid var(--line);"
    "border-radius:.75rem}\n"
    "footer{padding-top:.5rem;padding-bottom:3rem;font-size:.8125rem;color:var(--dim)}\n"
    "footer dl{margin:0;display:grid;gap:.3rem}footer div{display:grid;grid-template-columns:6.5rem 1fr;gap:.75rem}\n"
    "footer dt{color:var(--dim)}footer dd{margin:0;color:var(--ink);overflow-wrap:anywhere}\n"
    "code,.name{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;font-size:.875em}\n"
    "a{color:var(--accent)}ul{margin:.25rem 0 0;padding-left:1.15rem}li{margin:.3rem 0;overflow-wrap:anywhere}\n"
    ":focus-visible{outline:2px solid var(--accent);outline-offset:2px}\n";

static const char parts[] =
    ".hero{display:grid;grid-template-columns:minmax(12rem,1fr) 2fr;gap:1.5rem 3rem;align-items:center}\n"
    ".big{margin:0;font-size:clamp(3rem,9vw,4.75rem);line-height:1;font-weight:640;letter-spacing:-.04em;"
    "color:var(--accent)}\n"
    ".big+p{margin:.5rem 0 0;color:var(--dim)}\n"
    ".bars{display:grid;gap:1rem}.bar{display:grid;grid-template-columns:1fr auto;gap:.25rem 1rem;margin:0}\n"
    ".bar>span:nth-child(2){font-weight:600}.bar>svg{grid-column:1/-1}.bar>span:first-child{color:var(--dim)}\n"
    "svg{display:block;overflow:hidden}.stack{width:100%;height:1.75rem;border-radius:.3rem;background:var(--soft)}\n"
    ".stack rect{stroke:var(--card);stroke-width:1px}\n"
    ".swatch{display:inline-block;width:.75rem;height:.75rem;margin-right:.55rem;border-radius:.2rem;"
    "vertical-align:-.06rem}\n"
    ".tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(8.5rem,1fr));gap:1rem 1.5rem;margin:1.5rem 0 0;"
    "padding-top:1.25rem;border-top:1px solid var(--line)}\n"
    ".tiles:first-child,h2+.tiles{margin-top:0;padding-top:0;border-top:0}h2+.tiles{margin-top:1rem}\n"
    ".small{font-size:.8125rem}.bars+.scroll,.bars+.legend{margin-top:1.25rem}\n"
    ".tiles dt{font-size:.8125rem;color:var(--dim)}.tiles dd{margin:0;font-size:1.25rem;font-weight:600;"
    "letter-spacing:-.01em;overflow-wrap:anywhere}\n"
    ".tiles small{display:block;font-size:.8125rem;font-weight:400;letter-spacing:0;color:var(--dim)}\n"
    ".scroll{overflow-x:auto;margin:0 calc(-1*clamp(1.1rem,3vw,1.75rem));padding:0 clamp(1.1rem,3vw,1.75rem)}\n"
    "table{width:100%;border-collapse:collapse;font-size:.875rem;line-height:1.4}\n"
    "th,td{padding:.45rem .9rem .45rem 0;text-align:left;vertical-align:baseline;white-space:nowrap;"
    "border-bottom:1px solid var(--line)}\n"
    "tr>:last-child{padding-right:0}tbody tr:last-child>*{border-bottom:0}\n"
    "thead th{font-weight:500;font-size:.8125rem;color:var(--dim)}tbody th{font-weight:500}.n{text-align:right}\n"
    ".sub{color:var(--dim)}.why{white-space:normal;min-width:14rem;color:var(--dim)}\n"
    "tfoot th,tfoot td,tr.sum>*{font-weight:600;border-top:1px solid var(--line);border-bottom:0}\n"
    ".note{margin:1rem 0 0;font-size:.875rem;max-width:46rem}\n"
    "details{margin-top:1rem}summary{cursor:pointer;color:var(--accent);font-size:.9375rem}\n"
    ".badge{display:inline-block;padding:.1rem .55rem;border-radius:1rem;font-size:.8125rem;font-weight:600;"
    "white-space:nowrap}\n"
    ".yes{background:var(--yes);color:var(--yes-ink)}.near{background:var(--near);color:var(--near-ink)}\n"
    ".no{background:var(--no);color:var(--no-ink)}.maybe{background:var(--soft);color:var(--dim)}\n";

static const char drawings[] =
    ".maps{display:grid;grid-template-columns:minmax(8rem,max-content) 1fr auto;gap:.35rem 1rem;align-items:center;"
    "font-size:.875rem}\n"
    ".maps>.row{display:contents}.maps .name{overflow-wrap:anywhere}\n"
    ".strip{width:100%;height:1.15rem;border-radius:.2rem;background:var(--soft)}.none{fill:var(--soft)}\n"
    "th.heat,td.heat{padding:.3rem .35rem;text-align:center;font-size:.75rem;border-bottom:1px solid var(--card)}"
    "td.wide{min-width:8rem}td.wide .stack{height:.75rem}\n"
    ".key{display:flex;gap:.75rem;align-items:center;justify-content:flex-end;margin:1rem 0 0;font-size:.8125rem;"
    "color:var(--dim)}.key .strip{width:9rem;height:.6rem}\n"
    ".looks{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,24rem),1fr));gap:1.75rem 2.5rem;"
    "margin-top:1.25rem}\n"
    "figure{margin:0;min-width:0}figcaption{font-size:.8125rem;line-height:1.45;margin-top:.35rem}\n"
    ".plot{width:100%;height:7.5rem;margin-top:.5rem}.plot.low{height:3rem}.plot.tall{height:clamp(11rem,32vw,17rem)}\n"
    ".hist{fill:var(--accent)}.err{fill:var(--dim)}.axis{stroke:var(--line);vector-effect:non-scaling-stroke}\n"
    ".level{stroke:var(--ink);stroke-width:1px;vector-effect:non-scaling-stroke}\n"
    ".ticks{display:flex;justify-content:space-between;font-size:.75rem;color:var(--dim);margin-top:.2rem}\n"
    ".peak{stroke:var(--ink);stroke-dasharray:4 3;vector-effect:non-scaling-stroke}\n"
    ".phase{stroke:var(--line);vector-effect:non-scaling-stroke}\n"
    ".curve{fill:none;stroke:var(--accent);stroke-width:1.5px;vector-effect:non-scaling-stroke}\n"
    ".legend{display:flex;flex-wrap:wrap;gap:.35rem 1.25rem;margin:.9rem 0 0;padding:0;list-style:none;"
    "font-size:.8125rem;color:var(--dim)}.legend li{margin:0}\n"
    ".phases{display:flex;font-size:.75rem;color:var(--dim);margin-top:.3rem}.phases span{min-width:0;overflow:hidden;"
    "text-overflow:ellipsis;white-space:nowrap}\n"
    "td.cell{padding:.2rem .25rem;border-bottom:0}td.cell:last-child{padding-right:0}\n"
    "td.cell span{display:block;padding:.4rem .6rem;border-radius:.35rem;font-size:.8125rem;text-align:center}\n"
    "td.cell b{display:block;font-weight:600}table.matrix thead th{text-align:center}\n"
    "table.matrix thead th:first-child{text-align:left}table.matrix tbody th{border-bottom:0;padding-right:1.5rem}\n";

static const char media[] =
    "@media(max-width:40rem){th,td{padding-right:.65rem}.hero{grid-template-columns:1fr}.maps{grid-template-columns:"
    "1fr auto;row-gap:.2rem}"
    ".maps .strip{grid-column:1/-1;grid-row:auto;order:3;margin-bottom:.6rem}.maps>.row{display:grid;"
    "grid-template-columns:1fr auto;grid-column:1/-1;gap:.2rem 1rem}footer div{grid-template-columns:1fr;gap:0}"
    ".maps .name{font-size:.75rem}}\n"
    "@media print{@page{margin:14mm}:root{--bg:#fff;--card:#fff;--ink:#000;--dim:#444;--line:#ccc;--soft:#f2f2f2;"
    "--accent:#0a6e5d;--yes:#d8ece6;--yes-ink:#0a5c4e;--near:#fbecc8;--near-ink:#6b4a00;--no:#f3e3e4;--no-ink:#8a2432}"
    "*{-webkit-print-color-adjust:exact;print-color-adjust:exact}body{font-size:10pt}header,main,footer{max-width:none;"
    "padding-left:0;padding-right:0}section{border:0;border-top:1px solid var(--line);border-radius:0;padding:1rem 0}"
    ".scroll{overflow:visible;margin:0;padding:0}table{font-size:8.5pt}tr,figure,.bar,.tiles div{break-inside:avoid}"
    "h2{break-after:avoid}}\n";

void vc_page_style(struct vc_text *text)
{
    static const char *const all[] = {colours, frame, parts, drawings, media};

    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        vc_text_add(text, "%s", all[i]);
    }
}
