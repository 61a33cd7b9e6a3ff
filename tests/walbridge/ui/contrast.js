// Of each text that is seen, what it is and the ratio of its luminance to that of what lies behind it, as WCAG 2 has it.
const parsed = (color) => {
  const [r, g, b, alpha = 1] = color.match(/[\d.]+/g).map(Number);
  return { rgb: [r, g, b], alpha };
};
const over = (top, alpha, below) => top.map((each, n) => each * alpha + below[n] * (1 - alpha));
const chain = (element) => (element ? [...chain(element.parentElement), element] : []);
const luminance = (rgb) => {
  const [r, g, b] = rgb.map((each) => each / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const grey = ([r, g, b]) => Array(3).fill(0.2126 * r + 0.7152 * g + 0.0722 * b);

function ratio(element) {
  let back = [255, 255, 255];
  let opacity = 1;
  let isGrey = false;
  for (const each of chain(element)) {
    const style = getComputedStyle(each);
    const layer = parsed(style.backgroundColor);
    back = over(layer.rgb, layer.alpha, back);
    opacity *= Number(style.opacity);
    isGrey ||= style.filter.includes("grayscale");
  }
  const style = getComputedStyle(element);
  const ink = parsed(element instanceof SVGElement ? style.fill : style.color);
  const pair = [over(ink.rgb, ink.alpha * opacity, back), back].map((rgb) => luminance(isGrey ? grey(rgb) : rgb));
  return (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
}

const found = [];
const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (texts.nextNode()) {
  const element = texts.currentNode.parentElement;
  const box = element.getBoundingClientRect();
  if (!texts.currentNode.textContent.trim() || !element.checkVisibility() || box.right < 0 || box.width <= 1) continue;
  found.push([texts.currentNode.textContent.trim(), ratio(element)]);
}
return found;
