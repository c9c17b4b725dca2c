//! How pages look: one column of words, pictures and tables as wide as they are, light or dark as the reader's screen, white on paper.

/// The rules.
pub(super) const STYLE: &str = "\
:root{--ground:#ffffff;--ink:#1d2430;--soft:#4a5361;--line:#d5d9e0;--band:#f3f5f8;--link:#00578a}
@media screen and (prefers-color-scheme:dark){:root{--ground:#14181f;--ink:#e8ebf0;--soft:#aab3c0;--line:#363e4b;--band:#1c222c;--link:#7cc4f2;color-scheme:dark}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0 auto;max-width:60rem;padding:1.5rem 1.25rem 3rem;background:var(--ground);color:var(--ink);font:1rem/1.55 Arimo,Helvetica,Arial,\"Liberation Sans\",sans-serif}
a{color:var(--link)}
a:focus-visible,[tabindex]:focus-visible{outline:3px solid var(--link);outline-offset:2px}
.skip{position:absolute;left:-100rem}
.skip:focus{left:1rem;top:.5rem;background:var(--ground);padding:.25rem .5rem}
header{border-bottom:2px solid var(--line);margin-bottom:1.5rem}
header p{color:var(--soft);margin:.25rem 0 .75rem}
h1{font-size:1.8rem;line-height:1.25;margin:.25rem 0}
h2{font-size:1.35rem;margin:2.5rem 0 .75rem;padding-top:.5rem}
h3{font-size:1.08rem;margin:1.75rem 0 .5rem}
nav ul{columns:2;padding-left:1.25rem;margin:0 0 1rem}
figure{margin:1.25rem 0 1.75rem}
figcaption{font-weight:700;margin-bottom:.35rem}
figure svg{display:block;max-width:100%;height:auto;border:1px solid var(--line);border-radius:6px}
.wide{overflow-x:auto;margin:1rem 0 1.5rem}
table{border-collapse:collapse;font-size:.92rem;line-height:1.4}
caption{text-align:left;font-weight:700;padding:.25rem 0 .4rem}
th,td{padding:.3rem .7rem;text-align:left;vertical-align:top;border-bottom:1px solid var(--line)}
thead th{border-bottom:2px solid var(--soft);vertical-align:bottom}
tbody th{font-weight:400}
tbody tr:nth-child(even){background:var(--band)}
tfoot th,tfoot td{border-top:2px solid var(--soft);font-weight:700}
.number{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
pre{background:var(--band);border:1px solid var(--line);border-radius:6px;padding:.75rem 1rem;overflow-x:auto;font:.85rem/1.45 ui-monospace,\"Liberation Mono\",Consolas,monospace}
dl div{display:flex;flex-wrap:wrap;gap:0 1rem;padding:.25rem 0;border-bottom:1px solid var(--line)}
dt{flex:0 0 15rem;color:var(--soft)}
dd{flex:1 1 20rem;margin:0}
.beside{display:grid;grid-template-columns:repeat(auto-fit,minmax(19rem,1fr));gap:0 2rem}
.beside>div{min-width:0}
footer{margin-top:3rem;border-top:2px solid var(--line);color:var(--soft);font-size:.9rem}
@media print{body{max-width:none;padding:0;font-size:10.5pt}nav,.skip{display:none}h2,h3,figcaption,caption{break-after:avoid}figure,tr,pre{break-inside:avoid}.wide,pre{overflow:visible}thead{display:table-header-group}a{color:inherit;text-decoration:none}figure svg{border:0}}
";
