// Refreshes the page while it is open, and finds rows on it. Without this script everything else works as well.
"use strict";
const holder = document.querySelector("[data-find]");
function find() {
  const wanted = holder.querySelector("input").value.toLowerCase();
  for (const row of document.querySelectorAll("main tbody tr, main .cards > article")) {
    row.hidden = !row.textContent.toLowerCase().includes(wanted);
  }
}
if (holder && document.querySelectorAll("main tbody tr, main .cards > article").length > 1) {
  holder.hidden = false;
  holder.querySelector("input").addEventListener("input", find);
}

const live = document.querySelector("[data-live]");
let events = null;
function follow() {
  if (events || document.hidden) {
    return;
  }
  events = new EventSource("/live?page=" + encodeURIComponent(location.pathname + location.search));
  events.onmessage = (event) => {
    if (live.contains(document.activeElement) || String(window.getSelection())) {
      return;  // somebody is about to use what would be replaced
    }
    const open = [...live.querySelectorAll("details[open]")].map((each) => each.id);
    live.innerHTML = JSON.parse(event.data);
    for (const each of live.querySelectorAll("details")) {
      each.open = open.includes(each.id);
    }
  };
  events.addEventListener("gone", rest);
}
function rest() {
  if (events) {
    events.close();
    events = null;
  }
}
if (live && window.EventSource) {
  follow();
  document.addEventListener("visibilitychange", () => (document.hidden ? rest() : follow()));
}
