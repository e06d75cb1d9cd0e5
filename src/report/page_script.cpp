#include "html.hpp"

namespace ringshard::report {

// Shows the values of the curves at the pointer, inserted as text, never as markup. Contains no "<"
// and no "&", since the page is also XML.
std::string_view page_script() {
    return R"js(
(() => {
  const numbers = text => text.split(' ').map(Number);
  const points = path => path.split(/[ML]/).slice(1).map(numbers);
  const shown = value => String(Number(value.toPrecision(4)));
  const nearest = (list, x) => list.reduce((a, b) => Math.abs(a[0] - x) > Math.abs(b[0] - x) ? b : a);
  const tip = document.createElement('div');
  tip.className = 'tip';
  tip.hidden = true;
  document.body.append(tip);
  for (const svg of document.querySelectorAll('svg.chart')) {
    const about = svg.querySelector('g[data-key]').dataset;
    const [left, top, right, bottom] = numbers(about.box);
    const [first, last] = numbers(about.steps);
    const [low, high] = numbers(about.values);
    const value = y => {
      const share = (bottom - y) / (bottom - top);
      return about.scale === 'log' ? low * Math.pow(high / low, share) : low + share * (high - low);
    };
    const curves = [...svg.querySelectorAll('path[data-name]')].map(path => {
      const pieces = path.getAttribute('d').split('Z').filter(piece => piece).map(points);
      const is_area = !path.classList.contains('line');
      const edges = pieces.map(piece => is_area ? piece.slice(0, piece.length / 2).map((point, i) =>
        [point[0], point[1], piece[piece.length - 1 - i][1]]) : piece).flat();
      return {path, edges, kind: is_area ? path.classList[0] : 'line'};
    }).filter(curve => curve.edges.length);
    if (curves.length === 0) continue;
    const guide = svg.querySelector('line').cloneNode();
    guide.setAttribute('class', 'guide');
    guide.setAttribute('y1', top);
    guide.setAttribute('y2', bottom);
    const leave = () => { tip.hidden = true; guide.remove(); };
    svg.addEventListener('pointerleave', leave);
    svg.addEventListener('pointermove', event => {
      const box = svg.getBoundingClientRect();
      const x = (event.clientX - box.left) * svg.viewBox.baseVal.width / box.width;
      const at = curves.map(curve => nearest(curve.edges, x)).reduce((a, b) => Math.abs(a[0] - x) > Math.abs(b[0] - x) ? b : a)[0];
      guide.setAttribute('x1', at);
      guide.setAttribute('x2', at);
      svg.querySelector('g[data-key]').append(guide);
      const head = document.createElement('b');
      head.textContent = 'step ' + Math.round(first + (at - left) / (right - left) * (last - first));
      tip.replaceChildren(head);
      for (const {path, edges, kind} of curves) {
        const point = nearest(edges, at);
        if (Math.abs(point[0] - at) > 4) continue;
        const upper = value(point[1]) / about.size, lower = kind === 'line' ? 0 : value(point[2]) / about.size;
        const style = getComputedStyle(path), row = document.createElement('div'), sample = document.createElement('i');
        sample.style.background = kind === 'line' ? style.stroke : style.fill;
        row.append(sample, (kind === 'band' ? shown(lower) + ' to ' + shown(upper) : shown(upper - lower)) +
          (about.unit ? ' ' + about.unit : '') + (path.dataset.name ? '  ' + path.dataset.name : ''));
        tip.append(row);
      }
      tip.hidden = false;
      const room = document.documentElement.clientWidth - tip.offsetWidth - 8;
      tip.style.left = Math.max(8, Math.min(event.clientX + 16, room)) + 'px';
      tip.style.top = Math.max(8, event.clientY - tip.offsetHeight - 12) + 'px';
    });
  }
})();
)js";
}

}  // namespace ringshard::report
