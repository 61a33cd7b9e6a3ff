"use strict";
// Puts the newest page in place of the one that is shown, every few seconds, unless it is paused.
(() => {
  const find = (id) => document.getElementById(id);
  const button = find("pause");
  let paused = false;
  let asking = false;

  const focusable = () => [...find("page").querySelectorAll("a, [tabindex]")];

  function put(fresh) {
    const page = find("page");
    const focused = focusable().indexOf(document.activeElement);
    const scrolled = [...page.querySelectorAll(".scroll")].map((each) => [each.scrollLeft, each.scrollTop]);
    page.replaceChildren(...fresh.getElementById("page").childNodes);
    [...page.querySelectorAll(".scroll")].forEach((each, n) => {
      if (scrolled[n]) [each.scrollLeft, each.scrollTop] = scrolled[n];
    });
    if (focused >= 0) focusable()[focused]?.focus({ preventScroll: true });
    document.querySelector("header nav")?.replaceWith(fresh.querySelector("header nav"));
    find("foot").textContent = fresh.getElementById("foot").textContent;
    document.title = fresh.title;
    say(fresh.getElementById("told").textContent);
  }

  // A screen reader reads it out, so only what is new is written.
  function say(text) {
    if (find("told").textContent !== text) find("told").textContent = text;
  }

  async function refresh() {
    const selected = getSelection();
    if (paused || asking || document.hidden || (selected && !selected.isCollapsed)) return;
    asking = true;
    try {
      const answer = await fetch(location.href, { cache: "no-store" });
      if (!answer.ok) throw new Error(String(answer.status));
      put(new DOMParser().parseFromString(await answer.text(), "text/html"));
      document.body.classList.remove("lost");
    } catch {
      document.body.classList.add("lost");
      find("foot").textContent = "walbridge ui does not answer any more: what is shown is old.";
      say("walbridge ui does not answer any more");
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
  setInterval(refresh, Number(find("page").dataset.refresh) * 1000);
})();
