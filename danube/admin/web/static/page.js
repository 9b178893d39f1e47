// Finds rows on the page that is shown. Without this script everything else works as well.
"use strict";
const holder = document.querySelector("[data-find]");
const rows = document.querySelectorAll("main tbody tr, main .cards > article");
if (holder && rows.length > 1) {
  holder.hidden = false;
  holder.querySelector("input").addEventListener("input", (event) => {
    const wanted = event.target.value.toLowerCase();
    for (const row of rows) {
      row.hidden = !row.textContent.toLowerCase().includes(wanted);
    }
  });
}
