// Draws the charts of the page once they come into sight, pages through the findings, and switches light and dark.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");
  let printing = false; // Paper is white.
  const mode = () => (printing ? "light" : root.dataset.mode || (prefersDark.matches ? "dark" : "light"));

  // ---- Charts ----

  // Columns beside the lanes of a facet: the axis, as wide as the charts set it, and the padding of the view.
  const BESIDE_A_FACET = 62;
  const drawn = new Map(); // element -> width that it was drawn for

  const specOf = (element) => {
    const story = element.dataset.story;
    const spec = structuredClone(story ? data.timeline : data.charts[element.dataset.chart]);
    if (story) spec.datasets = { story: data.stories[story] };
    return spec;
  };

  // Vega-Lite fits no width to a chart whose height is given by lane.
  const lanes = (spec) => {
    const field = spec.layer[0].encoding.y.field;
    return new Set(Object.values(spec.datasets).flatMap((rows) => rows.map((row) => row[field]))).size;
  };

  const fitted = (spec, width) => {
    if (spec.spec) {
      spec.spec.width = width - BESIDE_A_FACET;
    } else {
      if (spec.height.step) spec.height = spec.height.step * lanes(spec);
      spec.width = width;
      spec.autosize = { type: "fit-x", contains: "padding" };
    }
    return spec;
  };

  const draw = async (element) => {
    const width = Math.floor(element.clientWidth);
    if (!width) return;
    drawn.set(element, width);
    try {
      // Expressions are interpreted, because the policy of the page forbids to compile them.
      await window.vegaEmbed(element, fitted(specOf(element), width), {
        actions: false,
        ast: true,
        config: data.themes[mode()],
        logLevel: 1, // Errors; a timeline without draining hashes would warn of an empty domain.
        renderer: "svg",
        tooltip: { theme: mode() },
      });
      element.dataset.drawn = mode();
    } catch (error) {
      element.classList.add("failed");
      element.textContent = "This chart could not be drawn; its numbers are below.";
      console.error(error);
    }
  };

  const inSight = new IntersectionObserver(
    (entries) => {
      for (const entry of entries) {
        if (entry.isIntersecting) {
          inSight.unobserve(entry.target);
          draw(entry.target);
        }
      }
    },
    { rootMargin: "400px" },
  );
  // An element of a closed part is not in sight before the part opens.
  document.querySelectorAll(".chart").forEach((element) => inSight.observe(element));

  const redraw = (wanted) => [...drawn.keys()].filter(wanted).forEach(draw);
  let resized;
  window.addEventListener("resize", () => {
    clearTimeout(resized);
    resized = setTimeout(() => redraw((e) => Math.floor(e.clientWidth) !== drawn.get(e)), 150);
  });

  // ---- Light and dark ----

  const button = document.getElementById("mode");
  const named = () => {
    button.textContent = mode() === "dark" ? "Light" : "Dark";
    button.setAttribute("aria-label", `Switch to ${button.textContent.toLowerCase()} colours`);
  };
  const switched = () => {
    named();
    redraw(() => true);
  };
  button.hidden = false;
  named();
  button.addEventListener("click", () => {
    root.dataset.mode = mode() === "dark" ? "light" : "dark";
    switched();
  });
  prefersDark.addEventListener("change", () => root.dataset.mode || switched());

  // ---- Findings ----

  const PAGE = 20;
  const list = document.getElementById("list");
  const items = list ? [...list.children] : [];
  let page = 0;
  let matching = items;

  const show = () => {
    const from = page * PAGE;
    const shown = new Set(matching.slice(from, from + PAGE));
    items.forEach((item) => (item.hidden = !shown.has(item)));
    const until = Math.min(from + PAGE, matching.length);
    document.getElementById("shown").textContent = `${from + 1} to ${until} of ${matching.length}`;
    document.getElementById("previous").disabled = page === 0;
    document.getElementById("next").disabled = until >= matching.length;
    document.querySelector(".pages").hidden = matching.length <= PAGE;
    document.getElementById("nothing").hidden = matching.length > 0;
  };

  const filter = () => {
    const words = document.getElementById("search").value.toLowerCase().split(/\s+/);
    const severity = document.getElementById("severity").value;
    const rule = document.getElementById("rule").value;
    matching = items.filter(
      ({ dataset }) =>
        (!severity || dataset.severity === severity) &&
        (!rule || dataset.rule === rule) &&
        words.every((word) => dataset.search.includes(word)),
    );
    page = 0;
    document.getElementById("matches").textContent =
      matching.length === items.length ? "" : `${matching.length} of ${items.length} match`;
    show();
  };

  if (items.length) {
    document.querySelector(".filter").hidden = items.length < 2;
    ["search", "severity", "rule"].forEach((id) => document.getElementById(id).addEventListener("input", filter));
    document.querySelector(".filter").addEventListener("submit", (event) => event.preventDefault());
    const turn = (by) => {
      page += by;
      show();
      document.querySelector(".filter").scrollIntoView();
    };
    document.getElementById("previous").addEventListener("click", () => turn(-1));
    document.getElementById("next").addEventListener("click", () => turn(1));
    document.getElementById("all").addEventListener("click", () => {
      document.querySelector(".filter").reset();
      filter();
      document.getElementById("search").focus();
    });
    show();
  }

  // A link to a finding turns to its page and opens it.
  const goTo = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    target.closest("details.part")?.setAttribute("open", "");
    if (!target.classList.contains("finding")) return;
    const at = matching.indexOf(target.parentElement);
    if (at < 0) {
      document.querySelector(".filter").reset();
      filter();
    }
    page = Math.floor(matching.indexOf(target.parentElement) / PAGE);
    show();
    target.open = true;
    target.scrollIntoView();
    target.querySelector("summary").focus({ preventScroll: true });
  };
  window.addEventListener("hashchange", goTo);
  goTo();

  document.querySelectorAll(".copy").forEach((copy) => {
    copy.hidden = !navigator.clipboard;
    copy.addEventListener("click", async () => {
      await navigator.clipboard.writeText(copy.parentElement.querySelector("code").textContent);
      copy.textContent = "Copied";
    });
  });

  // ---- On paper ----

  // What is folded is opened, all findings that match are there, and charts are drawn that nobody has scrolled to; of
  // the timelines those of the findings in sight, because there may be hundreds. The browser lays the paper out as soon
  // as the promises of drawing are kept, which wait for nothing but each other.
  let unfolded = [];
  window.addEventListener("beforeprint", () => {
    const inSight = items.filter((item) => !item.hidden);
    printing = true;
    items.forEach((item) => (item.hidden = !matching.includes(item)));
    unfolded = [...document.querySelectorAll("details:not([open]):not(.long)")];
    unfolded.forEach((part) => (part.open = true));
    const wanted = (e) => !e.dataset.story || inSight.includes(e.closest("li"));
    [...document.querySelectorAll(".chart")].filter(wanted).forEach((e) => e.dataset.drawn === "light" || draw(e));
  });
  window.addEventListener("afterprint", () => {
    unfolded.forEach((part) => (part.open = false));
    printing = false;
    if (items.length) show();
    redraw((e) => e.dataset.drawn && e.dataset.drawn !== mode());
  });

  // ---- The section in sight, in the bar ----

  const links = new Map([...document.querySelectorAll("nav a")].map((link) => [link.hash.slice(1), link]));
  const current = new IntersectionObserver(
    (entries) => {
      for (const { target, isIntersecting } of entries) {
        const link = links.get(target.id);
        if (isIntersecting) link.setAttribute("aria-current", "true");
        else link.removeAttribute("aria-current");
      }
    },
    { rootMargin: "-20% 0px -75% 0px" },
  );
  links.forEach((_, id) => current.observe(document.getElementById(id)));
})();
