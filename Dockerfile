# The audit on its embedded engine: no Java, nothing is compiled at its first run, no root.
#   docker build -t dispatch-audit .
#   docker run --rm -v "$PWD:/audit" --user "$(id -u):$(id -g)" dispatch-audit audit traces --out tables
# Both stages take the same image, because the virtual environment refers to its Python.
ARG PYTHON_IMAGE=python:3.12-slim-bookworm

FROM ${PYTHON_IMAGE} AS build
# hadolint ignore=DL3013 # uv checks what it installs against the hashes of requirements/gate.lock, which has no uv
RUN python3 -m venv /opt/build \
    && /opt/build/bin/pip install --no-cache-dir 'uv>=0.9,<1'
WORKDIR /src
# The libraries first: they change less often than the sources.
COPY pyproject.toml ./
COPY requirements/gate.lock requirements/
RUN python3 -m venv --without-pip /opt/dispatch-audit \
    && /opt/build/bin/uv pip install --no-cache --compile-bytecode --python /opt/dispatch-audit/bin/python \
        --constraints requirements/gate.lock --extra embedded --requirements pyproject.toml \
    && /opt/build/bin/uv pip install --no-cache --target /opt/hatch --python /opt/dispatch-audit/bin/python \
        --constraints requirements/gate.lock hatchling
COPY . .
# The wheel compiles the kernel with the libraries that it will run with (hatch_build.py). The jars are for Apache Spark,
# which needs a Java that this image does not have.
RUN PYTHONPATH=/opt/hatch /opt/dispatch-audit/bin/python -m hatchling build -t wheel -d /dist \
    && /opt/build/bin/uv pip install --no-cache --no-deps --compile-bytecode --python /opt/dispatch-audit/bin/python /dist/*.whl \
    && rm -r /opt/dispatch-audit/lib/python3*/site-packages/pyspark/jars

FROM ${PYTHON_IMAGE}
LABEL org.opencontainers.image.title="dispatch-audit" \
      org.opencontainers.image.description="Audits recorded Apache Pulsar Key_Shared dispatch traces" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/dispatch-audit /opt/dispatch-audit
ENV PATH=/opt/dispatch-audit/bin:$PATH \
    # Any user may be given with --user, one without a home as well.
    HOME=/tmp
# A number, so that Kubernetes sees that it is not root (runAsNonRoot).
USER 10001:10001
WORKDIR /audit
ENTRYPOINT ["dispatch-audit"]
CMD ["--help"]
