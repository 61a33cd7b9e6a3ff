"use strict";
// Puts the newest page in place of the one that is shown, every few seconds, unless it is paused.
(() => {
  const find = (id) => document.getElementById(id);
  const milliseconds = (name) => Number(find("page").dataset[name]) * 1000;
  const button = find("pause");
  let paused = false;
  let asking = false;

  const focusable = () => [...document.querySelectorAll("header nav a, #page a, #page [tabindex]")];

  function put(fresh) {
    const page = find("page");
    document.body.classList.remove("lost");
    const focused = focusable().indexOf(document.activeElement);
    const scrolled = [...page.querySelectorAll(".scroll")].map((each) => [each.scrollLeft, each.scrollTop]);
    page.replaceChildren(...fresh.getElementById("page").childNodes);
    [...page.querySelectorAll(".scroll")].forEach((each, n) => {
      if (scrolled[n]) [each.scrollLeft, each.scrollTop] = scrolled[n];
    });
    document.querySelector("header nav")?.replaceWith(fresh.querySelector("header nav"));
    if (focused >= 0) focusable()[focused]?.focus({ preventScroll: true });
    find("foot").textContent = fresh.getElementById("foot").textContent;
    document.title = fresh.title;
    say(fresh.getElementById("told").textContent);
  }

  // A screen reader reads it out, so only what is new is written.
  function say(text) {
    if (find("told").textContent !== text) find("told").textContent = text;
  }

  // What is shown is old: said where it is seen, too.
  function lose(why) {
    document.body.classList.add("lost");
    say(`${why}: what is shown is old`);
  }

  async function refresh() {
    const selected = getSelection();
    if (paused || asking || document.hidden || (selected && !selected.isCollapsed)) return;
    asking = true;
    try {
      const signal = AbortSignal.timeout(milliseconds("patience"));
      const answer = await fetch(location.href, { cache: "no-store", headers: { "X-Refresh": "1" }, signal });
      const body = await answer.text();
      if (answer.status === 401) lose("the token is not taken any more, so load the page again");
      else if (!answer.ok) lose(`walbridge ui answers with ${answer.status}`);
      else if (!paused) put(new DOMParser().parseFromString(body, "text/html"));
    } catch {
      lose("walbridge ui does not answer any more");
    } finally {
      asking = false;
    }
  }

  button.hidden = false;
  button.addEventListener("click", () => {
    paused = !paused;
    button.textContent = paused ? "Go on" : "Pause";
    if (!paused) refresh();
  });
  setInterval(refresh, milliseconds("refresh"));
})();
