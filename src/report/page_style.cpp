#include "html.hpp"

namespace ringshard::report {

// Follows svg_style(), whose colour classes it uses. Contains no "<" and no "&", since the page is
// also XML.
std::string_view page_style() {
    return R"css(
:root{--paper:#f4f6f8;--card:#ffffff;--ink:#1f2328;--soft:#57606a;--rule:#dde2e7;--good:#1a7f37;--warn:#8a5a00;--bad:#c21f2c}
@media(prefers-color-scheme:dark){
:root{--paper:#0d1117;--card:#151b23;--ink:#e6edf3;--soft:#9aa4af;--rule:#2b333d;--good:#4cc268;--warn:#e0b040;--bad:#ff7b72}
}
*{box-sizing:border-box}
html{color-scheme:light dark;-webkit-text-size-adjust:100%}
body{margin:0;background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
main{max-width:1240px;margin:0 auto;padding:28px 20px 48px}
h1{font-size:26px;line-height:1.25;margin:2px 0 6px;overflow-wrap:anywhere}
h2{font-size:18px;margin:36px 0 12px}
h3{font-size:15px;margin:22px 0 8px}
p{margin:6px 0 10px;overflow-wrap:anywhere}
.brand{font-size:12px;letter-spacing:.08em;text-transform:uppercase;color:var(--soft);margin:0}
.soft,figcaption{color:var(--soft)}
.state{display:inline-block;font-size:13px;font-weight:600;line-height:1.6;padding:0 10px;border-radius:11px;border:1px solid currentColor;color:var(--soft);vertical-align:4px;margin-left:6px}
td .state{vertical-align:baseline;margin:0}header{margin:0 0 18px}
.good{color:var(--good)}.warning{color:var(--warn)}.bad{color:var(--bad)}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(128px,1fr));gap:12px;margin:20px 0 0}
@media(max-width:1160px){.tiles{grid-template-columns:repeat(4,minmax(0,1fr))}}
@media(max-width:620px){.tiles{grid-template-columns:repeat(2,minmax(0,1fr))}}
.tile,figure{background:var(--card);border:1px solid var(--rule);border-radius:8px}
.tile{padding:10px 12px 11px;min-width:0}
.tile b{display:block;font-size:20px;line-height:1.3;font-weight:600;font-variant-numeric:tabular-nums;white-space:nowrap}
.tile span{display:block;font-size:12.5px;line-height:1.45;color:var(--soft);overflow-wrap:anywhere}
.charts{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,360px),1fr));gap:14px}.charts .wide{align-self:start}
@media(min-width:1170px){.span2{grid-column:span 2}}
figure{margin:0;padding:10px 8px 6px 8px;min-width:0}
figure svg.chart{display:block;width:100%;height:auto}
figure .chart text{font-size:12.5px}figure .chart .title{font-size:14px}
figcaption{font-size:12.5px;padding:2px 8px 6px}
.eval{stroke:var(--card)}
.legend{display:flex;flex-wrap:wrap;gap:4px 18px;margin:0 0 12px;padding:0;list-style:none;font-size:13.5px}
figcaption .legend{margin:0;font-size:12.5px;gap:2px 12px}
.legend li{display:flex;align-items:baseline;gap:7px;min-width:0;overflow-wrap:anywhere}
.sample{flex:none;width:26px;height:10px}.sample.square{width:10px}
.sample .line{stroke-width:2.4}
.wide{overflow-x:auto;background:var(--card);border:1px solid var(--rule);border-radius:8px;max-width:100%}
table{border-collapse:collapse;width:100%;font-size:14px}
th,td{text-align:left;vertical-align:baseline;padding:6px 14px;border-top:1px solid var(--rule)}
thead th{border-top:0;font-size:12.5px;font-weight:600;color:var(--soft);white-space:nowrap}
td{overflow-wrap:break-word}td.name:first-child{white-space:nowrap}td.plain,td.good,td.warning,td.bad{min-width:13ch}.long,td.name+td.name{overflow-wrap:anywhere;min-width:14ch}
.number{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.name{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;font-size:13px}
details{margin:12px 0 0}
summary{cursor:pointer;color:var(--soft);font-size:14px;margin:0 0 8px}
details.run{border-top:1px solid var(--rule);padding-top:12px;margin-top:20px}
details.run>summary{color:var(--ink);font-size:18px;font-weight:600;overflow-wrap:anywhere}
.hosts{margin:10px 0 0}
.mesh{background:var(--card);border:1px solid var(--rule);border-radius:8px;padding:14px;overflow-x:auto;width:fit-content;max-width:100%}
.axis{display:flex;flex-wrap:wrap;gap:10px;align-items:flex-start}
.group{border:1px solid var(--rule);border-radius:6px;padding:6px 10px 10px}
.group>p{margin:0 0 6px;font-size:12.5px;color:var(--soft);white-space:nowrap}
.mesh table{width:auto;border-collapse:separate;border-spacing:4px}
.mesh td,.mesh .rank{padding:4px 8px;min-width:40px;border:1px solid var(--rule);border-bottom-width:3px;border-radius:5px;text-align:center;font-variant-numeric:tabular-nums;font-size:13px}
.mesh td.more,.mesh .more{border:0;color:var(--soft);font-size:12.5px;white-space:nowrap;align-self:center}
.host0{border-bottom-color:#0068b5!important}.host1{border-bottom-color:#c8500a!important}.host2{border-bottom-color:#00805c!important}.host3{border-bottom-color:#a63d94!important}
.host4{border-bottom-color:#8a6a00!important}.host5{border-bottom-color:#0e8fb3!important}.host6{border-bottom-color:#c2274b!important}.host7{border-bottom-color:#57606a!important}
svg.chart{touch-action:pan-y}.guide{stroke:var(--soft);stroke-dasharray:2 2;pointer-events:none}
.tip{position:fixed;z-index:1;pointer-events:none;max-width:min(420px,94vw);padding:6px 10px;background:var(--card);border:1px solid var(--rule);border-radius:6px;font-size:12.5px;font-variant-numeric:tabular-nums;overflow-wrap:anywhere;white-space:pre-wrap;box-shadow:0 2px 10px rgb(0 0 0 / .18)}
.tip i{display:inline-block;width:9px;height:9px;border-radius:2px;margin-right:6px}
footer{margin-top:40px;font-size:12.5px;color:var(--soft)}
@media(max-width:560px){main{padding:18px 12px 32px}th,td{padding:6px 10px}h1{font-size:22px}}
@media print{body{background:none}figure,.tile,tr{break-inside:avoid}}
)css";
}

}  // namespace ringshard::report
